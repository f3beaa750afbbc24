# SPDX-License-Identifier: MIT
"""Views, generation, translation, ablation, attribution and training from Python, on the models of the tree."""
import array
import glob
import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import reference as ref

import qkv

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERSE, DATES, GRU, OPINIONS, FACTS = (os.path.join(TOP, "models", name) for name in ("verse", "dates", "dates-gru", "opinions", "facts"))
GOLDEN = os.path.join(TOP, "tests", "golden")
TEXT = "In the beginning God created the heaven and the earth."


def weights(layers, heads, rows, keys):
    """Returns dense weights as [layers] arrays [1][heads][rows][keys], random rows that sum to 1."""
    found = []
    for layer in range(layers):
        x = ref.uniform(layer, 1, heads, rows, keys)
        for h, t in itertools.product(range(heads), range(rows)):
            row = [math.exp(3 * x[0, h, t, s]) for s in range(keys)]
            for s in range(keys):
                x[0, h, t, s] = row[s] / sum(row)
        found.append(x)
    return found


class Views(unittest.TestCase):
    def test_a_model_on_a_text(self):
        v = qkv.view(TEXT, model=VERSE)
        bundle = v._repr_mimebundle_()
        self.assertIn("verse", bundle["text/plain"])
        self.assertIn("heaven", bundle["text/plain"])
        page = bundle["text/html"]
        self.assertTrue(page.startswith('<iframe srcdoc="&lt;!doctype html&gt;'), page[:60])
        self.assertNotIn('"', re.match(r'<iframe srcdoc="([^"]*)"', page)[1])
        self.assertIn("bytes of at most 2,000,000", page)
        self.assertLess(len(v.html(v.budget)[0].encode()), v.budget)

    def test_a_budget_that_is_too_small_is_reported(self):
        page = qkv.view(TEXT, model=VERSE, budget=1000)._repr_html_()
        self.assertIn("over the budget of 1,000 bytes", page)

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            v = qkv.view(TEXT, model=VERSE, layer=1, heads=[0])
            for ending, head in ((".html", b"<!doctype html>"), (".svg", b"<svg"), (".png", b"\x89PNG")):
                path = os.path.join(folder, "x" + ending)
                if ending == ".png" and not glob.glob(os.path.join(os.path.dirname(qkv.__file__), "libqkv_png.so.*")):
                    with self.assertRaisesRegex(qkv.UnsupportedError, "libqkv_png"):  # a wheel for other machines
                        v.save(path)
                    continue
                v.save(path)
                with open(path, "rb") as f:
                    self.assertEqual(f.read(len(head)), head)
                with self.assertRaisesRegex(qkv.UsageError, "file exists already, expected force=True"):
                    v.save(path)
                v.save(path, force=True)
            with self.assertRaises(qkv.UsageError):
                v.save(os.path.join(folder, "x.pdf"))

    def test_the_layout_of_bertviz(self):
        tokens = ["then", "a", "cat", "sat", "down", "it", "slept", "here", "long"]
        x = weights(3, 4, 9, 9)
        v = qkv.view(attentions=x, tokens=tokens, sentence_b_start=5, layer=1, heads=[2], token=3)
        self.assertIn("cat", v.terminal())
        distance = sum(x[1][0, 2, t, s] * abs(t - s) for t in range(9) for s in range(9)) / 9
        self.assertAlmostEqual(v.head(1, 2).get("distance"), distance, delta=1e-5)
        cross = qkv.view(attentions=weights(1, 2, 3, 9), tokens=["x", "y", "z"], key_tokens=tokens)
        self.assertIn("cat", cross.terminal())
        for t, s in itertools.product(range(9), range(9)):
            self.assertEqual(v.weights(1, 2)[t, s], x[1][0, 2, t, s])
        for wrong in ((3, 0), (0, 4), (0, 0, 1), (True, 0)):
            with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                v.weights(*wrong)

    def test_weights_in_double(self):
        """A memoryview of doubles is read by numpy, or refused without it."""
        x, tokens = weights(1, 2, 3, 3), ["a", "b", "c"]
        doubles = array.array("d", ref.flat(x[0].tolist()))
        doubles = memoryview(doubles).cast("B").cast("d", x[0].shape)
        try:
            import numpy  # noqa: F401
        except ImportError:
            with self.assertRaisesRegex(qkv.DtypeError, r"attentions\[0\]: expected f32"):
                qkv.view(attentions=[doubles], tokens=tokens)
        else:
            self.assertEqual(qkv.view(attentions=[doubles], tokens=tokens).terminal(), qkv.view(attentions=x, tokens=tokens).terminal())

    def test_the_picture_is_that_of_the_command(self):
        command = os.path.join(os.environ.get("QKV_BUILD", ""), "bin", "qkv")
        if not os.path.exists(command):
            self.skipTest("the command is not built")
        for model, texts in ((VERSE, ("In the beginning", "God")), (DATES, ("12 March 2001",)), (DATES, ("12 March 2001", "1999-03")),
                             (GRU, ("12 March 2001",)), (GRU, ("12 March 2001", "1999-03"))):
            said = subprocess.run([command, "view", *texts, "-m", model, "--width", "80", "--terminal"],
                                  capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout
            ours = qkv.view(*texts, model=model)
            self.assertTrue(said.startswith(ours.terminal(80).rstrip()), f"{texts}:\n{said}\n{ours.terminal(80)}")
        with tempfile.TemporaryDirectory() as folder:  # the page with every view, also "residual" and "output"
            for model, texts in ((VERSE, ("In the beginning", "God")), (DATES, ("12 March 2001",)), (GRU, ("12 March 2001",)),
                                 (OPINIONS, ("it was good",)), (FACTS, ("Paris is in France",)), (FACTS, ("Paris is in [MASK].",))):
                file = os.path.join(folder, "page.html")
                subprocess.run([command, "view", *texts, "-m", model, "-o", file, "--force", "-q"], check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
                ours = qkv.view(*texts, model=model)
                with open(file, encoding="utf-8") as f:
                    self.assertTrue(f.read() == ours.html()[0], f"{model}: another page than that of the command")
                for view in ("output", "residual")[:1 if model == GRU else 2]:
                    said = subprocess.run([command, "view", *texts, "-m", model, "--width", "80", "--terminal", "--view", view],
                                          capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout
                    self.assertTrue(said.startswith(ours.terminal(80, view=view).rstrip()), f"{model} {view}:\n{said}")
        self.assertIn("encoder", qkv.view("12 March 2001", model=DATES, stack=0).terminal())
        ours = qkv.view("12 March 2001", "1999-03", model=DATES)
        self.assertEqual([s[0] for s in ours.stacks], ["encoder", "decoder", "cross"])
        self.assertIn("residual", ours.html()[0])
        for model in (DATES, GRU):
            with self.assertRaises(qkv.Interrupted):
                qkv.view("12 March 2001", model=model, progress=lambda what, done, total: done == total)

    def test_the_output_of_the_model(self):
        """The last row of the lens is what the model generates, and `token` is one of the positions."""
        text = "In the beginning God"
        logprob = qkv.generate(text, VERSE, max_tokens=1, temperature=0, details=True, logprobs=True)
        shown = qkv.view(text, model=VERSE, view="output").terminal()
        word, value = re.search("most likely token after “God” is “\u2423?(.*?)” (\\S+?)[;,.]( |\n)", shown).groups()[:2]
        self.assertEqual(word, logprob.text.strip())
        self.assertAlmostEqual(float(value), math.exp(logprob.logprobs[0]), delta=5.1e-4)  # three decimals
        self.assertIn("after “God”", qkv.view(TEXT, model=VERSE, view="output", token=5).terminal())
        with self.assertRaisesRegex(qkv.UnsupportedError, "without a model"):
            qkv.view(attentions=weights(1, 1, 3, 3), tokens=["a", "b", "c"], view="output")

    def test_a_recurrent_model(self):
        v = qkv.view("the 3rd of March 1987", model=GRU)
        (name, rows, keys, layers, heads), = v.stacks
        self.assertEqual((name, layers, heads), ("cross", 1, 1))
        t = qkv.Translator(GRU)
        self.assertEqual(rows, len(t("the 3rd of March 1987", details=True).ids) + 1)  # and the end token
        self.assertEqual(keys, len(t.tokenizer.encode("the 3rd of March 1987").ids))
        w = v.weights(0, 0)
        for row in range(rows):
            self.assertAlmostEqual(sum(w[row, key] for key in range(keys)), 1, delta=1e-5)
        self.assertEqual(max(range(keys), key=lambda key: w[3, key]), 20)  # the 7 of 1987
        # Above 2^20 weights the page has the largest of each row.  A recurrent model has no table of positions.
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copytree(GRU, os.path.join(folder, "gru"))
            with open(os.path.join(copy, "config.json"), "r+") as f:
                config = f.read().replace('"max_position_embeddings": 105', '"max_position_embeddings": 2000')
                f.seek(0)
                f.write(config)
            long = qkv.view("the 3rd of March 1987 " * 60, "1987-03-03" * 90, model=copy)
        self.assertGreater(long.stacks[0][1] * long.stacks[0][2], 2**20)
        self.assertEqual(long.html()[1]["kind"], "top")
        for view, reason in (("residual", "a Transformer is required"), ("neuron", "additive"), ("steps", "additive")):
            with self.assertRaisesRegex(qkv.UnsupportedError, reason):
                v.terminal(view=view)
        with self.assertRaises(qkv.UsageError):
            v.terminal(view=[])

    def test_the_marks_of_spaces_in_tokens(self):
        tokens, x = ["\u0120then", "\u2581a", "cat</w>", "\u0120"], weights(1, 1, 4, 4)
        shown = qkv.view(attentions=x, tokens=tokens).terminal()
        self.assertIsNone(re.search("\u0120[a-z]|\u2581[a-z]|</w>", shown))
        self.assertIn("\u0120then", qkv.view(attentions=x, tokens=tokens, prettify_tokens=False).terminal())

    def test_an_encoder_decoder(self):
        given = dict(encoder_attentions=weights(2, 2, 5, 5), decoder_attentions=weights(1, 3, 4, 4),
                     cross_attentions=weights(1, 2, 4, 5))
        named = dict(encoder_tokens=["eins", "zwei", "drei", "vier", "."], decoder_tokens=["one", "two", "three", "four"])
        v = qkv.view(**given, **named, stack=2)
        self.assertEqual(v.stacks, [("encoder", 5, 5, 2, 2), ("decoder", 4, 4, 1, 3), ("cross", 4, 5, 1, 2)])
        self.assertEqual(v.weights(0, 1, 2)[3, 4], given["cross_attentions"][0][0, 1, 3, 4])
        self.assertTrue("drei" in v.terminal() and "three" in v.terminal())
        self.assertEqual(qkv.view(**{**given, "encoder_attentions": None}, **named).stacks[1], ("cross", 4, 5, 1, 2))
        self.assertEqual(qkv.view(decoder_attentions=given["decoder_attentions"], **named).stacks, v.stacks[1:2])
        for wrong in (dict(cross_attentions=weights(1, 2, 4, 4)), dict(decoder_attentions=weights(1, 3, 4, 5)),
                      dict(attentions=given["encoder_attentions"]), dict(encoder_tokens=None), dict(stack=3)):
            with self.assertRaises(qkv.UsageError, msg=str(wrong.keys())):
                qkv.view(**{**given, **named, **wrong})

    def test_errors(self):
        x = weights(1, 2, 3, 3)
        for wrong in (dict(), dict(text="a", attentions=x), dict(attentions=x), dict(attentions=x, tokens=["a"]),
                      dict(attentions=[], tokens=[]), dict(attentions=x, tokens=["a", "b", "c"], layer=1),
                      dict(attentions=x, tokens=["a", "b", "c"], heads=[2]), dict(attentions=[3], tokens=["a"]),
                      dict(text="a", model=VERSE, theme="pink"), dict(text=3, model=VERSE),
                      dict(text="a", model=VERSE, view=""), dict(attentions=x, tokens=["a", "b", "c"], view="Heads")):
            with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                qkv.view(**wrong)
        with self.assertRaisesRegex(qkv.UsageError, "'x', expected one of heads, model, .*, training"):
            qkv.view("time flies", model=VERSE, view="x")
        with self.assertRaisesRegex(qkv.UsageError, "'x'"):
            qkv.view("time flies", model=VERSE).terminal(view="x")
        with self.assertRaises(qkv.FileError):
            qkv.view("a", model="no/such/folder")

    def test_the_names_of_bertviz(self):
        x, tokens = weights(2, 2, 3, 3), ["a", "b", "c"]
        wanted = qkv.view(attentions=x, tokens=tokens).terminal()
        for v in (qkv.view(x, tokens), qkv.view(tuple(x), tokens), qkv.view(attention=x, tokens=tokens, html_action="return")):
            self.assertEqual(v.terminal(), wanted)
        self.assertEqual(qkv.view(x, tokens, include_layers=[1, 0]).terminal(), qkv.view(x, tokens, layer=1).terminal())
        placed = qkv.view(x, tokens, 2, False, 1, [1], None, None, None, None, None, [0], "return")  # the order of bertviz.head_view
        self.assertEqual(placed.terminal(), qkv.view(x, tokens, sentence_b_start=2, layer=1, heads=[1]).terminal())
        named = dict(encoder_tokens=tokens, decoder_tokens=["d", "e"])
        one = qkv.view(encoder_attention=x, decoder_attention=weights(1, 2, 2, 2), cross_attention=weights(1, 2, 2, 3), **named)
        self.assertEqual(one.stacks, [("encoder", 3, 3, 2, 2), ("decoder", 2, 2, 1, 2), ("cross", 2, 3, 1, 2)])
        for wrong in (dict(text=x, attention=x, tokens=tokens), dict(attentions=x, attention=x, tokens=tokens), dict(text=x, pair=tokens, tokens=tokens),
                      dict(text=x, pair=tokens, html_action="print"), dict(text=x, pair=tokens, include_layers=3),
                      dict(text=x, pair=tokens, include_layers=[2]), dict(text=b"a"), dict(text=["a", "b"]),
                      # arguments of another source of weights
                      dict(text=x, pair=tokens, model=VERSE), dict(text="a", model=VERSE, sentence_b_start=1), dict(text="a", model=VERSE, tokens=tokens),
                      dict(text=x, pair=tokens, encoder_tokens=tokens), dict(encoder_attention=x, encoder_tokens=tokens, key_tokens=tokens),
                      dict(attention=x, tokens=tokens, pair="b"), dict(text=x, pair=tokens, progress=print)):
            with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                qkv.view(**wrong)
        with self.assertRaisesRegex(qkv.UsageError, "text: expected a str"):
            qkv.view(3, model="no/such/folder")

    def test_a_head_that_does_not_exist(self):
        v = qkv.view(weights(2, 3, 4, 4), ["a", "b", "c", "d"])
        self.assertGreater(v.head(1, 2)["effective_keys"], 0)
        for layer, head, stack in ((2, 0, 0), (0, 3, 0), (0, 0, 1), (99, 99, 0)):
            for function in (v.head, v.weights):
                with self.assertRaises(qkv.UsageError):
                    function(layer, head, stack)

    def test_no_heads_are_all_heads(self):
        tokens = [f"w{i}" for i in range(9)]
        x = weights(2, 4, 9, 9)
        for token in (None, 5):
            shown = [qkv.view(attentions=x, tokens=tokens, token=token, heads=h).terminal() for h in ([], None)]
            self.assertEqual(*shown)

    def test_calls_keep_nothing(self):
        v = qkv.view(TEXT, model=VERSE, layer=1, heads=[0], token=2, view="matrix")
        kept = len(v._keep)
        with tempfile.TemporaryDirectory() as folder:
            for i in range(3):
                v.terminal()
                v.html()
                v.save(os.path.join(folder, f"{i}.svg"))
        self.assertEqual(len(v._keep), kept)

    def test_a_callback_stops_the_run(self):
        with self.assertRaises(qkv.Interrupted):
            qkv.view(TEXT, model=VERSE, progress=lambda *_: True)
        with self.assertRaises(ZeroDivisionError):
            qkv.view(TEXT, model=VERSE, progress=lambda *_: 1 / 0)


class Texts(unittest.TestCase):
    def test_generate_equals_the_command(self):
        command = os.path.join(os.environ.get("QKV_BUILD", ""), "bin", "qkv")
        if not os.path.exists(command):
            self.skipTest("the command is not built")
        for options, flags in (({}, []), ({"temperature": .8, "seed": 5}, ["--temperature", ".8", "--seed", "5"])):
            said = subprocess.run([command, "generate", TEXT, "-m", VERSE, "-n", "12", *flags], capture_output=True, text=True)
            ours = qkv.generate(TEXT, VERSE, max_tokens=12, **options)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertIn(ours.strip(), said.stdout)

    def test_do_sample_of_the_folder_is_the_default(self):
        text, often = "In the beginning", dict(max_tokens=30, seed=5)
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "sampled")
            shutil.copytree(VERSE, copy, ignore=shutil.ignore_patterns("generation_config.json"), copy_function=os.symlink)

            def write(**config):
                with open(os.path.join(copy, "generation_config.json"), "w") as f:
                    json.dump(config, f)
            greedy = qkv.generate(text, VERSE, **often)
            write(do_sample=True, temperature=.9, top_k=40, top_p=.8, min_p=.01)
            all_four = dict(temperature=.9, top_k=40, top_p=.8, min_p=.01)
            sampled = qkv.generate(text, copy, **often)
            self.assertEqual(sampled, qkv.generate(text, VERSE, **often, **all_four))
            self.assertEqual("".join(qkv.generate(text, copy, stream=True, **often)), sampled)
            self.assertNotEqual(sampled, greedy)
            for own in (dict(temperature=1.5), dict(top_k=3), dict(top_p=.3), dict(min_p=.2), dict(top_k=2, top_p=.9)):
                self.assertEqual(qkv.generate(text, copy, **often, **own), qkv.generate(text, VERSE, **often, **{**all_four, **own}), own)
            free = qkv.generate(text, VERSE, **often, temperature=.9)
            for none in (-1, 0):  # no limit, while sampling stays on
                self.assertEqual(qkv.generate(text, copy, **often, top_k=none, top_p=1, min_p=none), free)
            self.assertNotEqual(free, sampled)
            self.assertEqual(qkv.generate(text, copy, **often, temperature=0), greedy)
            write(do_sample=False, temperature=.9, top_k=40)
            self.assertEqual(qkv.generate(text, copy, **often), greedy)
            for wrong in (dict(top_k=-2), dict(min_p=-.5), dict(top_k=1.5)):
                with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                    qkv.generate(text, VERSE, temperature=1, **wrong)

    def test_a_stream_has_the_same_text(self):
        with qkv.Generator(VERSE) as g:
            whole = qkv.generate([TEXT, "And"], g, max_tokens=20)
            self.assertEqual("".join(g(TEXT, stream=True, max_tokens=20)), whole[0])
            stream = g(TEXT, stream=True, max_tokens=200)
            next(stream)
            with self.assertRaisesRegex(qkv.UsageError, "another call"):
                g("And", max_tokens=1)
            stream.close()
            self.assertEqual(g("And", max_tokens=20), whole[1])
            d = g(TEXT, max_tokens=3, details=True, logprobs=True)
            self.assertEqual((len(d.ids), len(d.logprobs), d.ending), (3, 3, "tokens"))
            self.assertEqual(len(g("And", max_tokens=3, num_beams=2, num_return_sequences=2)), 2)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_forked_child_does_not_wait_for_a_stream(self):
        g = qkv.Generator(VERSE)
        stream = g("In the beginning", stream=True, max_tokens=100, ignore_end=True)
        next(stream)
        child = os.fork()
        if not child:
            signal.alarm(60)  # a hang
            try:
                next(stream)
            except qkv.UsageError as error:
                os._exit(0 if "forked" in str(error) else 1)
            except BaseException:
                os._exit(2)
            os._exit(3)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue("".join(stream))

    def test_close_ends_a_stream(self):
        for read in (1, 3):
            with qkv.Generator(VERSE) as g:
                stream = g("to be", stream=True, max_tokens=200)
                for _ in range(read):
                    next(stream)
            self.assertEqual(threading.active_count(), 1)
            with self.assertRaisesRegex(qkv.UsageError, "closed"):
                for _ in range(200):  # the texts that waited come first
                    next(stream)
            self.assertEqual(list(stream), [])

    def test_close_in_a_callback_waits_for_the_call(self):
        with qkv.Generator(VERSE) as g:
            wanted = g(["to be"], max_tokens=20)
        for stream in (False, True):
            g, closed = qkv.Generator(VERSE), []
            tokenizer = g.tokenizer

            def close(*_):
                closed.append(g.close())
            if stream:
                with self.assertRaisesRegex(qkv.UsageError, "closed"):
                    list(g("to be", stream=True, max_tokens=20, progress=close))
            else:
                self.assertEqual(g(["to be"], max_tokens=20, progress=close), wanted)
            self.assertTrue(closed)
            for call in (lambda: g("a"), lambda: tokenizer.encode("a")):
                with self.assertRaisesRegex(qkv.UsageError, "closed"):
                    call()
            self.assertEqual((g._uses, g._closed), (0, []))

    def test_close_in_another_thread_waits_for_the_call(self):
        g, started = qkv.Generator(VERSE), threading.Event()
        found = []
        work = threading.Thread(target=lambda: found.append(g("to be", max_tokens=100, progress=lambda *_: started.set())))
        work.start()
        started.wait(60)
        g.close()
        with self.assertRaisesRegex(qkv.UsageError, "closed"):
            g("a")
        work.join()
        self.assertEqual((len(found), g._uses, g._closed), (1, 0, []))

    def test_a_failed_call_does_not_keep_the_object(self):
        g = qkv.Generator(VERSE)
        try:
            g("a", prefix="b", progress=lambda *_: 1 / 0)
        except (ZeroDivisionError, qkv.UsageError) as error:
            kept = error
        g.close()
        self.assertEqual((g._uses, g._closed), (0, []), kept)

    def test_ctrl_c(self):
        """A real SIGINT during a call, and while a stream is read: both end, and the model stays usable."""
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with qkv.Generator(VERSE) as g:
                wanted = g("And", max_tokens=5)
                for stream in (False, True):
                    steps: list = []

                    def progress(*_):
                        steps.append(1)
                        if len(steps) == 1:
                            os.kill(os.getpid(), signal.SIGINT)
                    with self.assertRaises(KeyboardInterrupt):
                        list(g("to be", max_tokens=200, ignore_end=True, stream=stream, progress=progress))
                    self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)
                    if not stream:
                        self.assertEqual(len(steps), 1)
                    self.assertEqual((threading.active_count(), g._streams, g._uses), (1, {}, 0))
                    self.assertEqual(g("And", max_tokens=5), wanted)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_translate(self):
        self.assertEqual(qkv.translate("12 March 2001", DATES), "2001-03-12")
        with qkv.Translator(DATES) as t:
            for run in (lambda: t("12 March 2001", stream=True), lambda: qkv.translate("12 March 2001", t, stream=True),
                        lambda: qkv.translate("12 March 2001", DATES, stream=True)):
                with self.assertRaisesRegex(qkv.UnsupportedError, "stream"):
                    run()
            self.assertEqual(t("12 March 2001"), "2001-03-12")

    def test_errors(self):
        with qkv.Generator(VERSE) as g:
            for wrong in (dict(temperature=-1), dict(top_k=-2), dict(stop="a\0"), dict(colour=1), dict(seed=-1),
                          dict(top_p=float("nan")), dict(max_tokens=1.5), dict(progress=3)):
                with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                    g("a", **wrong)
            with self.assertRaises(qkv.UsageError):
                list(g("a", stream=True, colour=1))
            for model in (g, VERSE):
                with self.assertRaisesRegex(qkv.UsageError, "stream, details"):
                    qkv.generate("a", model, stream=True, details=True)
                for name in ("num_beams", "num_return_sequences"):
                    with self.assertRaisesRegex(qkv.UsageError, f"stream, {name}"):
                        list(qkv.generate("a", model, stream=True, **{name: 2}))
        with self.assertRaises(qkv.UsageError):
            g("a")
        with self.assertRaises(qkv.UnsupportedError):
            qkv.Generator(DATES)

    def test_ablate(self):
        e = qkv.ablate(TEXT, model=VERSE, changes=2)
        self.assertEqual(e.unit, "nats")
        self.assertEqual({len(row) for row in e.effect}, {len(e.effect[0])})
        self.assertLessEqual(max(len(c) for row in e.changes for c in row), 2)
        token, before, after = e.changes[0][0][0]
        self.assertTrue(0 <= token < len(e.tokens) and 0 <= before <= 1 and 0 <= after <= 1)
        with self.assertRaises(qkv.Interrupted):
            qkv.ablate(TEXT, model=VERSE, progress=lambda *_: True)
        with self.assertRaisesRegex(qkv.UnsupportedError, "requires a Transformer"):
            qkv.ablate("12 March 2001", model=GRU)
        self.assertEqual(e.layers, [("attention", i) for i in range(len(e.effect))])

    def test_ablate_equals_the_command(self):
        command = os.path.join(os.environ.get("QKV_BUILD", ""), "bin", "qkv")
        if not os.path.exists(command):
            self.skipTest("the command is not built")
        for kind in ("zero", "mean"):
            said = json.loads(subprocess.run([command, "ablate", TEXT, "-m", VERSE, "--kind", kind, "--json"], capture_output=True, check=True).stdout)
            e, stack = qkv.ablate(TEXT, model=VERSE, kind=kind), said["stacks"][0]
            self.assertEqual((e.unit, len(e.effect), len(e.effect[0])), (said["unit"], stack["layers"], stack["heads"]))
            self.assertAlmostEqual(e.loss, said["loss"], delta=1e-6)  # the JSON has 8 digits of numbers below 4
            for a, b in zip(ref.flat(e.effect), ref.flat(stack["effect"])):
                self.assertAlmostEqual(a, b, delta=1e-6)
        for texts in (("12 March 2001",), ("12 March 2001", "1999-03-12")):  # an encoder-decoder: its own output, and another
            said = json.loads(subprocess.run([command, "ablate", *texts, "-m", DATES, "--json"], capture_output=True, check=True).stdout)
            e = qkv.ablate(*texts, model=DATES)
            self.assertEqual((e.unit, len(said["stacks"])), (said["unit"], 3))
            self.assertAlmostEqual(e.loss, said["loss"], delta=1e-6)
            self.assertEqual(e.layers, [(s["part"], i) for s in said["stacks"] for i in range(s["layers"])])
            wanted = [row for s in said["stacks"] for row in s["effect"]]
            self.assertEqual([len(row) for row in e.effect], [len(row) for row in wanted])
            for a, b in zip(ref.flat(e.effect), ref.flat(wanted)):
                self.assertAlmostEqual(a, b, delta=1e-5)
            changes = [head for s in said["stacks"] for layer in s["changes"] for head in layer]
            ours = [head for layer in e.changes for head in layer]
            self.assertEqual([[t for t, _, _ in head] for head in ours], [[x["token"] for x in head] for head in changes])
            for t, x in zip([t for head in ours for t, _, _ in head], [x for head in changes for x in head]):
                self.assertIn(x["text"], e.tokens[t])

    def test_attribute(self):
        folder = os.path.join(GOLDEN, "sentences", "model")
        a = qkv.attribute("the cat sat", "a cat", model=folder)
        self.assertEqual([len(a.terms), len(a.terms[0])], [len(t) for t in a.tokens])
        self.assertAlmostEqual(sum(ref.flat(a.terms)), a.cosine, delta=1e-9)
        with qkv.SentenceTransformer(folder) as m:
            self.assertEqual(qkv.attribute("the cat sat", "a cat", model=m), a)
            x, y = (memoryview(m.encode(t)).tolist() for t in ("the cat sat", "a cat"))
            dot = lambda u, v: sum(p * q for p, q in zip(u, v))
            self.assertAlmostEqual(a.cosine, dot(x, y) / (dot(x, x) * dot(y, y))**.5, delta=1e-5)
            for wrong in ((3, "a"), ("a", None), ("a", ["b"]), ("\ud800", "a")):
                with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                    qkv.attribute(*wrong, model=m)
        with self.assertRaisesRegex(qkv.UsageError, "closed"):
            qkv.attribute("a", "b", model=m)
        with self.assertRaises(qkv.MissingFileError):
            qkv.attribute("a", "b", model="no/such/folder")
        with tempfile.TemporaryDirectory() as place:  # the vector of a text is the row of one token
            own = os.path.join(place, "model")
            shutil.copytree(folder, own)
            os.mkdir(os.path.join(own, "1_Pooling"))
            for name, content in (("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                                                    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]),
                                  ("1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})):
                with open(os.path.join(own, name), "w") as f:
                    json.dump(content, f)
            with self.assertRaisesRegex(qkv.UnsupportedError, "pool"):
                qkv.attribute("a", "b", model=own)


class Training(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.book = os.path.join(self.folder.name, "book.txt")
        with open(self.book, "w") as f:
            f.write((TEXT + "\n\n") * 40)
        self.options = dict(arch="gpt", layers=1, heads=2, width=16, context=32, tokenizer="bytes", batch_tokens=64, seed=3)

    def tearDown(self):
        self.folder.cleanup()

    def run_at(self, name):
        return os.path.join(self.folder.name, name)

    def test_a_run_stops_and_continues_with_the_same_loss(self):
        seen = []
        whole = qkv.train(self.run_at("a"), self.book, steps=6, step=lambda s: seen.append(s.loss), **self.options)
        self.assertEqual((whole.steps, len(seen)), (6, 6))
        with self.assertRaises(qkv.Interrupted):
            qkv.train(self.run_at("b"), self.book, steps=6, step=lambda s: s.step == 3, **self.options)
        rest = []
        again = qkv.train(self.run_at("b"), step=lambda s: rest.append(s.loss))
        self.assertEqual((again.from_step, rest), (3, seen[3:]))
        self.assertEqual(again.loss, whole.loss)
        self.assertTrue(qkv.generate("In", again.model, max_tokens=2))

    def test_a_progress_bar(self):
        from test_texts import fake_tqdm
        with fake_tqdm() as fake:
            qkv.train(self.run_at("bar"), self.book, steps=4, show_progress_bar=True, **self.options)
            qkv.train(self.run_at("no"), self.book, steps=2, **self.options)
            with self.assertRaises(ZeroDivisionError):
                qkv.train(self.run_at("stop"), self.book, steps=3, show_progress_bar=True, step=lambda s: 1 / 0, **self.options)
            qkv.train(self.run_at("stop"), show_progress_bar=True)
        self.assertEqual([(b.total, b.begin, b.seen, b.unit, b.closed) for b in fake.bars],
                         [(4, 0, [1, 2, 3, 4], "steps", 1), (3, 0, [1], "steps", 1), (3, 1, [2, 3], "steps", 1)])
        self.assertGreater(float(fake.bars[0].shown[0]["loss"]), 1)

    def test_errors(self):
        for wrong in (dict(colour=1), dict(steps="a"), dict(arch="no"), dict(lowercase=1), dict(step=3)):
            with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                qkv.train(self.run_at("c"), self.book, **{**self.options, "steps": 1, **wrong})
        with self.assertRaises(qkv.FileError):
            qkv.train(self.run_at("d"), "no/such/file", steps=1, **self.options)

    def test_ctrl_c_saves_the_run(self):
        code = ("import signal, qkv\n"
                "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it runs in the background\n"
                f"try: qkv.train({self.run_at('e')!r}, {self.book!r}, steps=10**6, save_every=10**6,\n"
                f"               step=lambda s: print(s.step, flush=True), **{self.options!r})\n"
                "except KeyboardInterrupt: print('stopped', flush=True)\n")
        p = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        try:
            p.stdout.readline()
            p.send_signal(signal.SIGINT)
            rest = p.communicate(timeout=60)[0].split()
        finally:
            p.kill()
        self.assertEqual(rest[-1], "stopped")
        self.assertTrue(os.path.exists(os.path.join(self.run_at("e"), "model", "model.safetensors")))


if __name__ == "__main__":
    unittest.main()

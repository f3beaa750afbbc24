# SPDX-License-Identifier: MIT
"""qkv.view of models of transformers: its weights against eager attention, its picture against that of a model folder."""
import copy
import json
import os
import re
import sys
import unittest

try:
    import torch
    import transformers as hf
except ImportError:
    print("skipped: torch or transformers is not installed")
    sys.exit(77)

import qkv
from qkv._view_streams import Streams, layer_name, middle_of, tensor

hf.logging.set_verbosity_error()
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERSE, DATES, OPINIONS, FACTS, MINILM = (os.path.join(TOP, "models", name)
                                         for name in ("verse", "dates", "opinions", "facts", "all-MiniLM-L6-v2"))
TEXT, MORE = "In the beginning God created the heaven and the earth.", "And the earth was without form"
SIZES = dict(vocab_size=2048, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, pad_token_id=0,
             bos_token_id=1, eos_token_id=2, initializer_range=.2, max_position_embeddings=64)
GROUPED = dict(SIZES, num_key_value_heads=2)
BART = dict(vocab_size=2048, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=48, decoder_ffn_dim=48, init_std=.2, max_position_embeddings=64)
# Families that qkv does not know, and those whose weights are not the softmax of q.k alone.
MODELS = {
    "gpt_neox": (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**SIZES)),
    "gpt_oss, sinks and windows": (hf.GptOssForCausalLM, hf.GptOssConfig(
        **GROUPED, head_dim=8, sliding_window=4, num_local_experts=2, num_experts_per_tok=2,
        layer_types=["sliding_attention", "full_attention"])),
    "gemma2, softcap": (hf.Gemma2ForCausalLM, hf.Gemma2Config(**GROUPED, head_dim=8, sliding_window=5, attn_logit_softcapping=3.)),
    "bart": (hf.BartForConditionalGeneration, hf.BartConfig(**BART)),
    "t5, position bias": (hf.T5ForConditionalGeneration, hf.T5Config(
        vocab_size=2048, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)),
}
torch.set_num_threads(1)  # several threads of OpenMP poll for each other, which takes minutes on a busy machine


def build(name):
    torch.manual_seed(3)
    cls, config = MODELS[name]
    return cls(copy.deepcopy(config)).eval()  # a test may change the configuration of its model


def eager(model, tokenizer, pair):
    """Returns [stack][layer] the weights [heads][rows][keys] of eager attention."""
    model.set_attn_implementation("eager")
    read = lambda text: tokenizer.encode(text).ids
    ids = torch.tensor([read(TEXT)])
    with torch.no_grad():
        if pair is None:
            return [[x[0] for x in model(input_ids=ids, output_attentions=True).attentions]]
        steps = torch.tensor([[model.config.decoder_start_token_id, *read(pair)][:-1]])
        r = model(input_ids=ids, decoder_input_ids=steps, output_attentions=True)
    return [[x[0] for x in layers] for layers in (r.encoder_attentions, r.decoder_attentions, r.cross_attentions)]


class Weights(unittest.TestCase):
    def setUp(self):
        self.t = qkv.Tokenizer(VERSE)

    def check(self, v, dense):
        self.assertEqual([s[1:] for s in v.stacks], [(*x[0].shape[1:], len(x), x[0].shape[0]) for x in dense])
        for stack, layers in enumerate(dense):
            for layer, heads in enumerate(layers):
                for head, exact in enumerate(heads):
                    found = torch.as_tensor(v.weights(layer, head, stack))
                    # Two layers of float32 before softmax: eager float32 differs from double by as much.
                    self.assertLess((found - exact).abs().max().item(), 1e-5, (stack, layer, head))

    def test_weights_equal_those_of_eager_attention(self):
        for name in MODELS:
            with self.subTest(name):
                model = build(name)
                pair = MORE if model.config.is_encoder_decoder else None
                before = model.config._attn_implementation
                v = qkv.view(TEXT, pair, model=model, tokenizer=self.t)
                self.assertEqual((model.config._attn_implementation, model.training), (before, False))
                self.check(v, eager(model, self.t, pair))
                page, report = v.html()
                self.assertEqual((report["not_one"], report["not_numbers"]), (0, 0))
                self.assertLess(report["error"], 1e-3)
                self.assertTrue("heaven" in page)

    def test_the_mode_of_each_module_is_kept(self):
        """A frozen part in eval() of a model that is trained stays so."""
        model = build("gpt_neox").train()
        model.gpt_neox.layers[0].eval()
        before = [m.training for m in model.modules()]
        self.assertEqual(len(set(before)), 2)
        qkv.view(TEXT, model=model, tokenizer=self.t)
        self.assertEqual([m.training for m in model.modules()], before)

    def test_a_text_that_is_stored_as_its_largest_weights(self):
        """1,100 tokens: the page has the largest weights of each row."""
        torch.manual_seed(5)
        config = hf.GPTNeoXConfig(**{**SIZES, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 2048})
        model = hf.GPTNeoXForCausalLM(config).eval()
        text = "the earth " * 550
        v = qkv.view(text, model=model, tokenizer=self.t)
        _, rows, keys, _, _ = v.stacks[0]
        self.assertGreater(rows * keys, 2**20)
        with qkv.observe(model, top_k=16) as seen, torch.no_grad():
            model(torch.tensor([self.t.encode(text).ids]))
        found = torch.as_tensor(v.weights(0, 1))
        at = seen[0].top_key[0, 1].long()
        clear = (at >= 0) & (found.gather(1, at.clamp(min=0)) > 0)
        self.assertGreater(clear.float().mean().item(), .5)
        self.assertLess((found.gather(1, at.clamp(min=0)) - seen[0].top_weight[0, 1])[clear].abs().max().item(), 1e-6)
        note = v._repr_html_().rsplit("<p", 1)[1]
        self.assertIn("the 16 largest weights of each row", note)

    def test_an_encoder_decoder_generates_its_output(self):
        model = hf.AutoModelForSeq2SeqLM.from_pretrained(DATES, dtype=torch.float32)
        v = qkv.view("12 March 2001", model=model, tokenizer=qkv.Tokenizer(DATES))
        self.assertEqual([s[0] for s in v.stacks], ["encoder", "decoder", "cross"])
        self.assertEqual(v.terminal(), qkv.view("12 March 2001", model=DATES).terminal())
        self.assertEqual(v.stacks[2][1], len(qkv.Tokenizer(DATES).encode("2001-03-12").ids))  # with the end


class Pictures(unittest.TestCase):
    def same(self, folder, model, tokenizer, *texts):
        v, w = qkv.view(*texts, model=folder), qkv.view(*texts, model=model, tokenizer=tokenizer)
        self.assertEqual(v.stacks, w.stacks)
        self.assertEqual(v.terminal(), w.terminal())
        self.assertEqual(v.terminal(view="residual"), w.terminal(view="residual"))

    def test_a_decoder_looks_as_its_folder(self):
        model = hf.AutoModelForCausalLM.from_pretrained(VERSE, dtype=torch.float32)
        for tokenizer in (qkv.Tokenizer(VERSE), hf.AutoTokenizer.from_pretrained(VERSE)):
            for text in (TEXT, "the — “été” 你好 earth"):
                self.same(VERSE, model, tokenizer, text)

    @unittest.skipUnless(os.path.exists(os.path.join(MINILM, "model.safetensors")), "models/all-MiniLM-L6-v2 is missing")
    def test_a_pair_of_texts_looks_as_its_folder(self):
        model = hf.AutoModel.from_pretrained(MINILM)
        for tokenizer in (hf.AutoTokenizer.from_pretrained(MINILM), qkv.Tokenizer(MINILM)):
            self.same(MINILM, model, tokenizer, "time flies like an arrow", "naïve café — 你好")


    def test_an_encoder_decoder_looks_as_its_folder(self):
        model = hf.AutoModelForSeq2SeqLM.from_pretrained(DATES, dtype=torch.float32)
        for texts in (("12 March 2001",), ("12 March 2001", "2001-03-12")):
            self.same(DATES, model, qkv.Tokenizer(DATES), *texts)


class Forwards(unittest.TestCase):
    def test_the_page_with_its_output_runs_the_model_once(self):
        """Each layer of each stack runs once on all rows; after that only what follows the last layer runs, on one row of each position."""
        for name in ("gpt_neox", "bart", "t5, position bias"):
            model, t = build(name), qkv.Tokenizer(VERSE)
            pair = MORE if model.config.is_encoder_decoder else None
            rows = {len(t.encode(TEXT).ids), *([len(t.encode(pair).ids)] if pair else [])}
            seen = []
            for part, m in model.named_modules():
                if layer_name(part) == part:
                    m.register_forward_hook(lambda _m, _x, out, part=part: seen.append((part, tensor(out).shape[1])))
            v = qkv.view(TEXT, pair, model=model, tokenizer=t, view="output")
            self.assertEqual(output_of(v)["rows"], 3)
            whole = [part for part, n in seen if n in rows]
            self.assertEqual(sorted(whole), sorted({part for part, _ in seen}), name)
            self.assertEqual({n for _, n in seen} - rows, {1}, name)
            self.assertFalse([part for part, n in seen if n == 1 and "encoder" in part], name)


class Residual(unittest.TestCase):
    def test_both_stacks_of_an_encoder_decoder(self):
        """With norms before the sublayers (T5) and after them (BART): the streams are the outputs of modules of the same run."""
        parts = {"bart": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"), "t5, position bias": None}
        for name, norms in parts.items():
            model, t = build(name), qkv.Tokenizer(VERSE)
            ids, steps = torch.tensor([t.encode(TEXT).ids]), torch.tensor([[0, *t.encode(MORE).ids]])
            outs = []
            for part, m in model.named_modules():
                last = part.split(".")[-1]
                if norms and "layers" in part and last in norms or not norms and ".layer." in part and part.split(".")[-2] == "layer":
                    m.register_forward_hook(lambda _m, _x, out, part=part: outs.append((layer_name(part), tensor(out)[0])))
            with Streams(model) as found, torch.no_grad():
                ran = model(input_ids=ids, decoder_input_ids=steps, output_hidden_states=True)
            for stack, hidden, cross in (("encoder", ran.encoder_hidden_states, False), ("decoder", ran.decoder_hidden_states, True)):
                names = [x for x in found.found if stack + "." in x]
                streams = found.of([x + ".attention" for x in names])
                self.assertEqual(len(streams), 2, (name, stack))
                for s, layer, before in zip(streams, names, hidden):
                    own = [x for at, x in outs if at == layer]
                    self.assertTrue(torch.equal(s.before, before[0]))
                    self.assertEqual(s.cross is not None, cross)
                    for a, b in zip([x for x in s[1:] if x is not None], own):
                        self.assertTrue(torch.equal(a, b), (name, layer))
                    self.assertEqual(len(own), 2 + cross)
            for stack in (0, 1):
                self.assertIn("layer", qkv.view(TEXT, MORE, model=model, tokenizer=t, view="residual", stack=stack).terminal())

    def test_the_order_of_norms_and_sublayers(self):
        """The stream is found where it is a sum: norms before, after and on both sides of a sublayer, and in parallel."""
        sizes = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48)
        added, whole = (lambda before, out: before + out), (lambda before, out: out)
        for config, more, module, expected in (
                (hf.Starcoder2Config, dict(num_key_value_heads=2), "self_attn", added), (hf.RobertaConfig, {}, "attention", whole),
                (hf.GPTNeoXConfig, {}, "attention", added), (hf.GPTNeoXConfig, dict(use_parallel_residual=False), "attention", added),
                (hf.Gemma2Config, dict(head_dim=8, num_key_value_heads=2), "post_attention_layernorm", added)):
            torch.manual_seed(2)
            model = hf.AutoModel.from_config(config(**sizes, **more)).eval()
            outs = []
            for name, part in model.named_modules():
                if name.split(".")[-1] == module and name.count(".") < 4:
                    part.register_forward_hook(lambda _m, _x, out: outs.append(out[0] if isinstance(out, tuple) else out))
            with Streams(model) as found, torch.no_grad():
                hidden = model(torch.randint(5, 60, (1, 9)), output_hidden_states=True).hidden_states
            layers = found.of([name + ".x" for name in found.found])
            self.assertEqual((len(layers), len(outs)), (2, 2), config)
            for s, before, out in zip(layers, hidden, outs):
                self.assertTrue(torch.equal(s.before, before[0]), config)
                self.assertLess((s.attention - expected(before[0], out[0])).abs().max().item(), 1e-5, config)
            self.assertTrue(torch.equal(layers[0].after, layers[1].before))

    def test_small_parts_of_a_stream_with_a_large_number(self):
        """Hidden states may have one number of thousands: a part that is small next to it is not taken for zero."""
        torch.manual_seed(3)
        before, a, m, n = torch.randn(4, 1, 9, 32)
        before[..., 5] = 1e4
        a, m = a * 1e-2, m * 1e-2
        parallel = middle_of(before, before + a + m, [(before, n), (n, a), (before, n), (n, m)])
        self.assertTrue(torch.equal(parallel, before + a))
        x = before + a
        self.assertIs(middle_of(before, x + m, [(before, n), (n, a), (x, n), (n, m)]), x)
        self.assertIsNone(middle_of(before, before + a / 2 + m, [(before, n), (n, a), (before, n), (n, m)]))

    def test_where_no_stream_is_found(self):
        model, t = build("gpt_neox"), qkv.Tokenizer(VERSE)
        self.assertIn("layer", qkv.view(TEXT, model=model, tokenizer=t).terminal(view="residual"))
        scaled = hf.GraniteForCausalLM(hf.GraniteConfig(**SIZES, residual_multiplier=.5)).eval()
        v = qkv.view(TEXT, model=scaled, tokenizer=t)
        for view, reason in (("residual", "no residual stream found in GraniteForCausalLM"),):
            with self.assertRaisesRegex(qkv.UnsupportedError, reason):
                v.terminal(view=view)
        with self.assertRaisesRegex(qkv.UnsupportedError, "no residual stream"):
            qkv.view(TEXT, model=scaled, tokenizer=t, view="residual")


def output_of(v):
    """Returns the output in the page of a View; values in units of 1e-5."""
    return json.loads(re.search(r'"output":(\{.*?\})', v.html()[0], re.S).group(1))


class Output(unittest.TestCase):
    # Values are rounded to 1e-5; before that, logits of size s of a float32 model of few layers differ by about 1e-6 s,
    # and a probability by as much of itself: 2e-5 for logits up to 10.
    UNITS = 3

    def lens(self, v, x, probabilities, ids, kind="next"):
        """Compares the page with probabilities [rows][positions][vocab] of torch."""
        self.assertEqual((x["kind"], x["rows"]), (kind, len(probabilities)))
        P, top = len(x["at"]), x["top"]
        for i, at in enumerate(x["at"]):
            for row, p in enumerate(probabilities):
                best = p[at].topk(top).values
                found = torch.tensor(x["values"][(i * len(probabilities) + row) * top:][:top]) / 1e5
                self.assertLess((found - best).abs().max().item(), self.UNITS * 1e-5, (at, row))
                if at + 1 < len(ids) and kind == "next":
                    own = p[at, ids[at + 1]].item()
                    self.assertAlmostEqual(x["targetValues"][i * len(probabilities) + row] / 1e5, own, delta=self.UNITS * 1e-5)
        self.assertEqual(P, len(x["targets"]))

    def test_the_head_of_the_norm_of_every_layer(self):
        """p_l = softmax(head(norm(h_l))), of a folder and of a model, of a family that qkv knows and of one it does not."""
        t = qkv.Tokenizer(VERSE)
        ids = t.encode(TEXT).ids
        verse = hf.AutoModelForCausalLM.from_pretrained(VERSE, dtype=torch.float32).eval()
        neox = build("gpt_neox")
        for model, norm, head, views in (
                (verse, verse.transformer.ln_f, verse.lm_head, (dict(model=VERSE), dict(model=verse, tokenizer=t))),
                (neox, neox.gpt_neox.final_layer_norm, neox.get_output_embeddings(), (dict(model=neox, tokenizer=t),))):
            with torch.no_grad():
                hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
                p = [head(norm(h[0])).softmax(1) for h in hidden[:-1]] + [head(hidden[-1][0]).softmax(1)]
            for how in views:
                v = qkv.view(TEXT, **how, view="output")
                self.lens(v, output_of(v), p, ids)

    def test_a_factor_and_a_cap_of_the_logits(self):
        """What follows the last layer is the model's own code: Gemma 2 caps the logits, Granite divides them."""
        t = qkv.Tokenizer(VERSE)
        ids = t.encode(TEXT).ids
        gemma = hf.Gemma2ForCausalLM(hf.Gemma2Config(**GROUPED, head_dim=8, final_logit_softcapping=2.)).eval()
        granite = hf.GraniteForCausalLM(hf.GraniteConfig(**SIZES, logits_scaling=4.)).eval()
        for model, end in ((gemma, lambda x: 2 * torch.tanh(x / 2)), (granite, lambda x: x / 4)):
            with torch.no_grad():
                hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
                p = [end(model.lm_head(model.model.norm(h[0]))).softmax(1) for h in hidden[:-1]] + [end(model.lm_head(hidden[-1][0])).softmax(1)]
            v = qkv.view(TEXT, model=model, tokenizer=t)
            self.lens(v, output_of(v), p, ids)

    def test_the_output_of_a_model_is_that_of_its_folder(self):
        mask = "It is [MASK]."
        for cls, folder, text in ((hf.AutoModelForCausalLM, VERSE, TEXT), (hf.AutoModelForSeq2SeqLM, DATES, "12 March 2001"),
                                  (hf.AutoModelForSequenceClassification, OPINIONS, "it was good"),
                                  (hf.AutoModelForMaskedLM, FACTS, mask), (hf.AutoModelForMaskedLM, FACTS, "Paris is in France")):
            v, w = qkv.view(text, model=cls.from_pretrained(folder, dtype=torch.float32), tokenizer=qkv.Tokenizer(folder)), qkv.view(text, model=folder)
            x, y = output_of(v), output_of(w)
            for name in ("kind", "stacks", "stack", "rows", "top", "all", "at"):
                self.assertEqual(x.get(name), y.get(name), (folder, name))
            self.assertEqual([x["names"][i] for i in x["entries"][::x["top"]]], [y["names"][i] for i in y["entries"][::y["top"]]])
            self.assertLessEqual(max(abs(a - b) for a, b in zip(x["values"], y["values"])), self.UNITS)
        self.assertEqual(output_of(qkv.view(mask, model=FACTS))["all"], 1)

    def test_labels_of_tokens_and_models_without_output(self):
        torch.manual_seed(4)
        config = hf.BertConfig(vocab_size=2048, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                               num_labels=3, initializer_range=.5)
        model, t = hf.BertForTokenClassification(config).eval(), qkv.Tokenizer(VERSE)
        v = qkv.view(TEXT, model=model, tokenizer=t, view="output")
        x = output_of(v)
        with torch.no_grad():
            p = model(torch.tensor([t.encode(TEXT).ids])).logits[0].softmax(1).sort(1, descending=True)
        self.assertEqual((x["kind"], [x["names"][i] for i in x["entries"]]), ("token labels", [f"LABEL_{i}" for i in p.indices.flatten()]))
        self.assertLess((torch.tensor(x["values"]) / 1e5 - p.values.flatten()).abs().max().item(), self.UNITS * 1e-5)
        plain = hf.BertModel(config).eval()
        self.assertIn("earth", qkv.view(TEXT, model=plain, tokenizer=t).terminal())
        with self.assertRaisesRegex(qkv.UnsupportedError, "BertModel returns no logits"):
            qkv.view(TEXT, model=plain, tokenizer=t, view="output")


class Errors(unittest.TestCase):
    def test_wrong_arguments(self):
        model, t = build("gpt_neox"), qkv.Tokenizer(VERSE)
        for error, wrong in ((qkv.UsageError, dict(model=model)), (qkv.UsageError, dict(model=model, tokenizer=3)),
                             (qkv.UsageError, dict(model=VERSE, tokenizer=t)), (qkv.UsageError, dict(model=None, tokenizer=t)),
                             (qkv.UsageError, dict(model=model, tokenizer=t, layer=2)),
                             (qkv.UsageError, dict(model=model, tokenizer=t, progress=3)),
                             (qkv.Interrupted, dict(model=model, tokenizer=t, progress=lambda *_: True)),
                             (qkv.DeviceError, dict(model=build("gpt_neox").to("meta"), tokenizer=t))):
            with self.assertRaises(error, msg=str(wrong.keys())):
                qkv.view(TEXT, **wrong)
        other = build("gpt_neox")
        other.resize_token_embeddings(9)
        with self.assertRaisesRegex(qkv.UsageError, "vocabulary has 9 tokens, found token"):
            qkv.view(TEXT, model=other, tokenizer=t)
        with self.assertRaisesRegex(qkv.UsageError, "64 positions"):
            qkv.view(TEXT * 9, model=model, tokenizer=t)
        self.assertNotEqual(model.config._attn_implementation, "qkv")

    def test_attention_that_does_not_use_the_interface(self):
        class Own(hf.GPTNeoXForCausalLM):
            def forward(self, input_ids, **_):
                return self.gpt_neox.embed_in(input_ids)
        with self.assertRaisesRegex(qkv.UnsupportedError, "interface"):
            qkv.view(TEXT, model=Own(MODELS["gpt_neox"][1]), tokenizer=qkv.Tokenizer(VERSE))

    def test_outputs_without_weights(self):
        with self.assertRaisesRegex(qkv.UsageError, "eager"):
            qkv.view(attentions=(None, None), tokens=["a"])


if __name__ == "__main__":
    unittest.main()

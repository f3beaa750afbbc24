# SPDX-License-Identifier: MIT
"""Models of transformers with the attention "qkv" against eager attention in double: architectures that libqkv itself
does not know, small and random."""
import copy
import itertools
import os
import pickle
import subprocess
import sys
import unittest
import unittest.mock

try:
    import torch
    import transformers as hf
except ImportError:
    print("skipped: torch or transformers is not installed")
    sys.exit(77)

import qkv
import qkv.transformers  # registers "qkv"
from qkv._masks import LinearMask

hf.logging.set_verbosity_error()
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEXT = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, pad_token_id=0,
            bos_token_id=1, eos_token_id=2, initializer_range=.2, max_position_embeddings=64)
GROUPED = dict(TEXT, num_key_value_heads=2)
VISION = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=24, patch_size=8,
              initializer_range=.2)
WHISPER = dict(vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
               encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=8, max_source_positions=20, max_target_positions=32,
               pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, init_std=.2)
torch.set_num_threads(1)  # several threads of OpenMP poll for each other, which takes minutes on a busy machine


def ids():
    torch.manual_seed(7)
    return torch.randint(3, 64, (2, 13))


def text(padded=False):
    mask = torch.ones(2, 13, dtype=torch.long)
    if padded:
        mask[1, 9:] = 0
    return dict(input_ids=ids(), attention_mask=mask)


def image():
    torch.manual_seed(8)
    return dict(pixel_values=torch.randn(2, 3, 24, 24))


def sound():
    torch.manual_seed(9)
    return dict(input_features=torch.randn(2, 8, 40), decoder_input_ids=ids())


# name: (class, configuration, inputs); none of them is a row of src/model/family/model.def
MODELS = {
    "gpt_neox, rotary on a part": (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**TEXT, rotary_pct=.5), text),
    "starcoder2, sliding window": (hf.Starcoder2ForCausalLM, hf.Starcoder2Config(**GROUPED, sliding_window=5), text),
    "gpt_oss, attention sinks": (hf.GptOssForCausalLM, hf.GptOssConfig(
        **GROUPED, head_dim=8, sliding_window=4, num_local_experts=2, num_experts_per_tok=2,
        layer_types=["sliding_attention", "full_attention"]), text),
    "stablelm": (hf.StableLmForCausalLM, hf.StableLmConfig(**GROUPED), text),
    "cohere2": (hf.Cohere2ForCausalLM, hf.Cohere2Config(**GROUPED, head_dim=8, sliding_window=4), text),
    "nemotron": (hf.NemotronForCausalLM, hf.NemotronConfig(**GROUPED, head_dim=8), text),
    "vit": (hf.ViTModel, hf.ViTConfig(**VISION), image),
    "whisper, encoder-decoder": (hf.WhisperForConditionalGeneration, hf.WhisperConfig(**WHISPER), sound),
}


def build(name, implementation, dtype):
    cls, config, _ = MODELS[name]
    torch.manual_seed(3)
    config = type(config).from_dict(config.to_dict())
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"  # the other experts refuse double
    model = cls(config).eval()
    for parameter in model.parameters():  # some start at constants, such as sinks
        if parameter.std() == 0 or parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=.3)
    model = model.to(dtype)
    model.set_attn_implementation(implementation)
    return model


def cast(inputs, dtype):
    return {k: x.to(dtype) if x.dtype.is_floating_point else x for k, x in inputs.items()}


def output(model, inputs):
    r = model(**inputs)
    return r.logits if "logits" in r else r.last_hidden_state


class Models(unittest.TestCase):
    def test_no_model_is_of_a_family_of_qkv(self):
        known = ""
        for name in ("model.def", "alias.def"):
            with open(os.path.join(TOP, "src", "model", "family", name), encoding="utf-8") as f:
                known += f.read()
        for name, (_, config, _) in MODELS.items():
            self.assertNotIn(f'"{config.model_type}"', known, name)
        self.assertGreaterEqual(len(MODELS), 6)

    def check(self, name, inputs, rows=slice(None)):
        exact = build(name, "eager", torch.float64)
        wanted = output(exact, cast(inputs, torch.float64))[rows]
        model = build(name, "qkv", torch.float32)
        self.assertEqual(model.config._attn_implementation, "qkv")
        found = output(model, inputs)[rows]
        # Two layers of float32: the logits of eager float32 differ by as much (below 1e-4 of the largest).
        eager = output(build(name, "eager", torch.float32), inputs)[rows]
        for other in (wanted, eager):
            self.assertLess(((found - other).abs().max() / wanted.abs().max()).item(), 1e-4, name)
        weight = torch.linspace(-1, 1, found.shape[-1])
        wanted.mul(weight.double()).sum().backward()
        found.mul(weight).sum().backward()
        compared = 0
        largest = max(p.grad.abs().max().item() for p in exact.parameters() if p.grad is not None)
        for (n, p), (_, e) in zip(model.named_parameters(), exact.named_parameters()):
            if e.grad is not None:
                self.assertLess((p.grad - e.grad).abs().max().item(), 1e-4 * largest, f"{name}: {n}")
                compared += 1
        self.assertGreater(compared, 10)

    def test_logits_and_gradients(self):
        for name, (_, _, inputs) in MODELS.items():
            with self.subTest(name):
                self.check(name, inputs())

    def test_padding(self):
        for name in ("gpt_neox, rotary on a part", "starcoder2, sliding window", "gpt_oss, attention sinks"):
            with self.subTest(name):
                inputs = text(padded=True)
                self.check(name, inputs, inputs["attention_mask"].bool())

    def test_generate_with_a_cache(self):
        for name in ("gpt_neox, rotary on a part", "gpt_oss, attention sinks"):
            a, b = (build(name, kind, torch.float32).generate(**text(), max_new_tokens=8, do_sample=False) for kind in ("eager", "qkv"))
            self.assertTrue(torch.equal(a, b), name)

    def test_weights_are_refused(self):
        with self.assertRaisesRegex((qkv.UnsupportedError, ValueError), "output_attentions"):
            build("vit", "qkv", torch.float32)(**image(), output_attentions=True)


MEMORY = """
import resource, torch, transformers as hf, qkv.transformers
torch.set_num_threads(1)
model = hf.GPTNeoXModel(hf.GPTNeoXConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                                         max_position_embeddings=4096)).eval()
def peak(n):
    with qkv.observe(model, top_k=16) as seen, torch.no_grad():
        model(input_ids=torch.arange(n)[None] % 64)
    assert [tuple(s.top_key.shape) for s in seen] == [(1, 4, n, 16)] * 2
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(-peak(256) + peak(4096))
"""


MASKED_MEMORY = """
import resource, torch, transformers as hf, qkv.transformers
torch.set_num_threads(1)
SIZES = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=4096)
models = (hf.GPTNeoXModel(hf.GPTNeoXConfig(**SIZES)), hf.BertModel(hf.BertConfig(**SIZES)),
          hf.Starcoder2Model(hf.Starcoder2Config(**SIZES, num_key_value_heads=2, sliding_window=64)),
          hf.Gemma2Model(hf.Gemma2Config(**SIZES, num_key_value_heads=2, head_dim=8, sliding_window=64)))
def peak(n):
    mask = torch.ones(2, n, dtype=torch.long)
    mask[1, n // 2:] = 0
    for model in models:
        model.set_attn_implementation("qkv")
        with torch.no_grad():
            model.eval()(input_ids=torch.arange(2 * n).view(2, n) % 64, attention_mask=mask)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(-peak(256) + peak(4096))
"""


# Models without SDPA, whose attention modules do not always say whether they are causal, or add the mask themselves.
SEQ2SEQ = dict(vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
               encoder_ffn_dim=48, decoder_ffn_dim=48, init_std=.3, max_position_embeddings=64, pad_token_id=0, bos_token_id=1,
               eos_token_id=2, decoder_start_token_id=1)
SPARSE = dict(vocab_size=64, hidden_size=32, intermediate_size=48, moe_intermediate_size=16, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1, kv_lora_rank=8,
              q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, index_topk=4, index_head_dim=16,
              index_n_heads=2, max_position_embeddings=64, initializer_range=.2, pad_token_id=0, first_k_dense_replace=2)


def encoder(cls, config):
    return lambda: (getattr(hf, cls)(getattr(hf, config)(**TEXT)), dict(input_ids=ids()))


def seq2seq(cls, config, **more):
    def make():
        return getattr(hf, cls)(getattr(hf, config)(**SEQ2SEQ, **more)), dict(input_ids=ids(), decoder_input_ids=ids())
    return make


def git():
    vision = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, image_size=16, patch_size=8)
    return hf.GitModel(hf.GitConfig(**TEXT, vision_config=vision)), dict(input_ids=ids())


WITHOUT_SDPA = {
    "splinter": encoder("SplinterModel", "SplinterConfig"),
    "clap text": encoder("ClapTextModel", "ClapTextConfig"),
    "align text": encoder("AlignTextModel", "AlignTextConfig"),
    "bigbird_pegasus": seq2seq("BigBirdPegasusModel", "BigBirdPegasusConfig"),
    "pegasus_x": seq2seq("PegasusXModel", "PegasusXConfig"),
    "nllb_moe": seq2seq("NllbMoeModel", "NllbMoeConfig", num_experts=4),
    "git": git,
}


class Masks(unittest.TestCase):
    def difference(self, model, inputs, **more):
        """Returns the largest difference between eager and qkv, relative to the largest output."""
        model, found = model.eval(), []
        for kind in ("eager", "qkv"):
            model.set_attn_implementation(kind)
            with torch.no_grad():
                found.append(output(model, dict(inputs, **more)))
        return ((found[0] - found[1]).abs().max() / found[0].abs().max()).item()

    def test_models_without_sdpa(self):
        """Causal attention where the module does not say so, and none where it says so wrongly."""
        for name, make in WITHOUT_SDPA.items():
            with self.subTest(name):
                torch.manual_seed(3)
                self.assertLess(self.difference(*make()), 1e-4)

    def test_no_token_attends_to_the_future(self):
        torch.manual_seed(3)
        model = hf.BigBirdPegasusForCausalLM(hf.BigBirdPegasusConfig(**SEQ2SEQ)).eval()
        model.set_attn_implementation("qkv")
        a = ids()[:1]
        b = a.clone()
        b[0, -1] = 3 if b[0, -1] != 3 else 4
        with torch.no_grad():
            x, y = model(input_ids=a).logits[0], model(input_ids=b).logits[0]
        self.assertLess((x[:-1] - y[:-1]).abs().max().item(), 1e-5)
        self.assertGreater((x[-1] - y[-1]).abs().max().item(), 1e-2)

    @unittest.skipUnless(hasattr(hf, "DeepseekV32Config"), "this version of transformers has no DeepseekV32")
    def test_sparse_attention(self):
        """4 keys of each query, which the model selects, out of 13."""
        torch.manual_seed(3)
        model = hf.DeepseekV32ForCausalLM(hf.DeepseekV32Config(**SPARSE))
        self.assertLess(self.difference(model, dict(input_ids=ids())), 1e-4)

    def test_unknown_patterns_are_refused(self):
        x = torch.randn(1, 2, 3, 8)
        for name in ("block_indices", "sinks"):
            with self.assertRaisesRegex(qkv.UnsupportedError, name):
                qkv.transformers.attention_forward(torch.nn.Module(), x, x, x, None, **{name: torch.zeros(1, 3, 1)})

    def test_fewer_queries_than_keys(self):
        """The last 4 of 13 queries of a causal model, without a mask: as the last 4 rows of all."""
        module = torch.nn.Module()
        module.is_causal = True
        torch.manual_seed(3)
        q, k, v = torch.randn(3, 1, 2, 13, 8)
        whole = qkv.transformers.attention_forward(module, q, k, v, None)[0]
        last = qkv.transformers.attention_forward(module, q[:, :, -4:], k, v, None)[0]
        self.assertLess((whole[:, -4:] - last).abs().max().item(), 1e-6)

    @unittest.skipUnless(hasattr(hf, "Gemma4TextConfig"), "this version of transformers has no Gemma4")
    def test_logits_to_keep(self):
        torch.manual_seed(3)
        model = hf.Gemma4ForCausalLM(hf.Gemma4TextConfig(**dict(
            GROUPED, num_hidden_layers=4, head_dim=8, global_head_dim=8, num_kv_shared_layers=2, sliding_window=64,
            layer_types=["sliding_attention", "full_attention"] * 2, vocab_size_per_layer_input=64,
            hidden_size_per_layer_input=8))).eval()
        self.assertLess(self.difference(model, dict(input_ids=ids()), logits_to_keep=4), 1e-4)
        with qkv.observe(model, top_k=1, received=True) as seen, torch.no_grad():
            model(input_ids=ids(), logits_to_keep=4)
        self.assertTrue(any(x.top_key.shape[2] == 4 for x in seen))
        for x in seen:  # the weights of each row sum to 1, over the keys that it may attend to
            self.assertLess((x.received.sum(-1) - x.top_key.shape[2]).abs().max().item(), 1e-4, x.name)


class LinearMasks(unittest.TestCase):
    def test_memory_with_padding_and_windows(self):
        """A mask of 2 x 4,096^2 bytes would be 32 MiB, its computation more than twice that, and of floats four times."""
        found = subprocess.run([sys.executable, "-c", MASKED_MEMORY], capture_output=True, text=True, check=True)
        self.assertLess(int(found.stdout), 64 * 1024, "KiB")

    def test_no_family_makes_the_numbers_of_its_mask(self):
        with unittest.mock.patch.object(LinearMask, "to_dense_mask", side_effect=AssertionError("dense")):
            for name, (_, _, inputs) in MODELS.items():
                with self.subTest(name), torch.no_grad():
                    build(name, "qkv", torch.float32)(**(text(padded=True) if inputs is text else inputs()))

    def test_the_rule_is_the_mask(self):
        """Attention by the rule and by the tensor, for every order, window, cache and padding."""
        masks, config, module = hf.masking_utils, MODELS["gpt_neox, rotary on a part"][1], torch.nn.Module()
        module.is_causal = False
        torch.manual_seed(3)
        functions = {"causal": masks.causal_mask_function, "window": masks.sliding_window_causal_mask_function(4),
                     "wide": masks.sliding_window_causal_mask_function(40), "both": masks.bidirectional_mask_function,
                     "band": masks.sliding_window_bidirectional_mask_function(3)}
        right, left = torch.ones(2, 2, 30, dtype=torch.bool)
        right[1, 9:], left[1, :4] = False, False
        rules = 0
        for (name, function), (queries, keys, first, start), padding in itertools.product(
                functions.items(), ((12, 12, 0, 0), (5, 12, 7, 0), (6, 12, 0, 0), (5, 12, 14, 7), (3, 12, 4, 0)), (None, right, left)):
            with self.subTest(name, sizes=(queries, keys, first, start)):
                options = dict(batch_size=2, q_length=queries, kv_length=keys, q_offset=first, kv_offset=start, dtype=torch.float32,
                               mask_function=function, attention_mask=padding, allow_is_causal_skip=False)
                dense = masks.sdpa_mask(**options)
                q, k, v = torch.randn(2, 4, queries, 8), torch.randn(2, 4, keys, 8), torch.randn(2, 4, keys, 8)
                call = lambda mask: qkv.transformers.attention_forward(module, q, k, v, mask)[0]
                for kind in (config, None):  # with SDPA, and without
                    mask = qkv.transformers.attention_mask(config=kind, **options)
                    self.assertEqual((tuple(mask.shape), mask.dtype), (tuple(dense.shape), torch.bool if kind else torch.float32))
                    rules += isinstance(mask, LinearMask)
                    found = call(mask)
                    self.assertTrue(not isinstance(mask, LinearMask) or mask.rule is not None)
                    self.assertLess((found - call(dense)).abs()[dense.any(3).expand(2, 1, queries)[:, 0]].max().item(), 1e-6)
                    self.assertTrue(torch.equal(mask == (True if kind else 0.), dense))
        self.assertGreater(rules, 100)

    def test_other_masks_are_tensors(self):
        masks, config = hf.masking_utils, MODELS["gpt_neox, rotary on a part"][1]
        part = torch.zeros(1, 9, dtype=torch.long)
        mine = lambda b, h, i, j: j <= i
        for function in (masks.chunked_causal_mask_function(4, torch.zeros(1, dtype=torch.long)), masks.packed_sequence_mask_function(part),
                         masks.or_masks(masks.causal_mask_function, masks.blockwise_overlay(part)), masks.and_masks(masks.causal_mask_function, mine),
                         mine, masks.sliding_window_overlay(torch.tensor(4))):
            options = dict(batch_size=1, q_length=9, kv_length=9, mask_function=function, allow_is_causal_skip=False)
            found = qkv.transformers.attention_mask(config=config, **options)
            self.assertIs(type(found), torch.Tensor)
            self.assertTrue(torch.equal(found, masks.sdpa_mask(**options)))

    def test_a_function_that_changed_its_meaning_is_not_trusted(self):
        """A later transformers may give another meaning to a function of the same name."""
        def sliding_window_overlay(sliding_window):
            return lambda b, h, i, j: j > i - sliding_window - 1 + 0 * sliding_window
        function = sliding_window_overlay(4)
        function.__module__, function.__qualname__ = hf.masking_utils.__name__, "sliding_window_overlay.<locals>.inner_mask"
        for names in (function, hf.masking_utils.sliding_window_overlay(4)):
            rule = qkv._masks.make_rule(1, 12, 12, 0, 0, names, None)
            self.assertEqual(rule is None, names is function)

    def test_operations_see_the_numbers(self):
        wanted = torch.ones(1, 1, 3, 3, dtype=torch.bool).tril()
        make = lambda: qkv._masks.linear_mask(wanted.clone, torch.bool, "cpu", 1, 3, 3)
        for read in (lambda m: m & True, lambda m: m.clone(), copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: m.expand(1, 1, 3, 3),
                     lambda m: torch.from_numpy(m.numpy()), lambda m: torch.tensor(m.tolist()), torch.from_dlpack, lambda m: m[:, :, :, :3] & True):
            mask = make()
            self.assertTrue(torch.equal(read(mask), wanted))
            self.assertIsNone(mask.rule)
        mask = make()
        whole = mask[:, :, :, :3]  # many models cut the keys: here nothing is cut
        self.assertTrue(whole.rule and mask.rule)
        whole[0, 0, 2, 0] = False
        self.assertIsNone(mask.rule)
        self.assertFalse(mask.tolist()[0][0][2][0])

    def test_compiled_layers(self):
        """Each call has another mask: a compiled layer does not keep the first."""
        name, inputs = "starcoder2, sliding window", text(padded=True)
        eager, model = build(name, "eager", torch.float32), build(name, "qkv", torch.float32)
        for layer in model.model.layers:
            layer.compile(backend="eager")
        for mask in (inputs["attention_mask"], inputs["attention_mask"].flip(0), inputs["attention_mask"]):
            with torch.no_grad():
                a, b = (x(input_ids=ids(), attention_mask=mask).logits for x in (eager, model))
            self.assertLess((a - b)[mask.bool()].abs().max().item(), 1e-4 * a.abs().max().item())

    def test_a_text_in_two_calls(self):
        for name in ("gpt_neox, rotary on a part", "starcoder2, sliding window", "gpt_oss, attention sinks"):
            with self.subTest(name), torch.no_grad():
                model, inputs = build(name, "qkv", torch.float32), text(padded=True)
                mask = inputs["attention_mask"].flip(1)  # padding on the left
                whole = model(input_ids=ids(), attention_mask=mask).logits
                first = model(input_ids=ids()[:, :8], attention_mask=mask[:, :8], use_cache=True)
                last = model(input_ids=ids()[:, 8:], attention_mask=mask, past_key_values=first.past_key_values).logits
                self.assertLess((whole[:, 8:] - last).abs().max().item(), 1e-4 * whole.abs().max().item())


class Observe(unittest.TestCase):
    def test_memory_does_not_grow_with_the_square_of_the_tokens(self):
        """Of 4,096 tokens the weights of one layer alone, 4 x 4,096^2, would be 256 MiB."""
        found = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
        self.assertLess(int(found.stdout), 64 * 1024, "KiB")

    def test_autocast(self):
        """Statistics are computed from the tensors that attention has read."""
        model = build("gpt_neox, rotary on a part", "eager", torch.float32)
        with qkv.observe(model, top_k=1, received=True) as seen, torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            model(**text())
        for layer in seen:  # 13 rows per head sum to 1; a sum of 13 weights of up to 13 terms each
            self.assertLess((layer.received.sum(-1) - 13).abs().max().item(), 13 * 2**-12)

    def test_statistics_equal_those_of_eager_weights(self):
        for name in MODELS:
            with self.subTest(name):
                inputs = MODELS[name][2]()
                model = build(name, "eager", torch.float32)
                exact = build(name, "eager", torch.float64)
                r = exact(**cast(inputs, torch.float64), output_attentions=True)
                if name.startswith("whisper"):
                    dense = [*r.encoder_attentions, *[x for pair in zip(r.decoder_attentions, r.cross_attentions) for x in pair]]
                else:
                    dense = r.attentions
                with qkv.observe(model, top_k=3, entropy=True, received=True, rows=[0, 2]) as seen, torch.no_grad():
                    model(**inputs)
                self.assertEqual(model.config._attn_implementation, "eager")
                self.assertEqual(len(seen), len(dense))
                for layer, (o, p) in enumerate(zip(seen, dense)):
                    self.assertIn(f".{layer % 2}." if len(dense) == 2 else ".", o.name)
                    top = p.topk(3, dim=-1)
                    self.assertLess((o.top_weight - top.values).abs().max().item(), 1e-5, o.name)
                    self.assertLess((o.received - p.sum(2)).abs().max().item(), 1e-4)
                    self.assertLess((o.row_weights - p[:, :, [0, 2]]).abs().max().item(), 1e-5)
                    self.assertLess((o.entropy + torch.special.xlogy(p, p).sum(3)).abs().max().item(), 1e-4)
                    clear = (top.values[..., 0] - top.values[..., 1]) > 1e-4
                    self.assertTrue((o.top_key[..., 0] == top.indices[..., 0])[clear].all())

    def test_the_implementation_of_each_part_is_restored(self):
        text_config = dict(TEXT, projection_dim=8)
        model = hf.CLIPModel(hf.CLIPConfig(text_config=text_config, vision_config=dict(VISION, projection_dim=8), projection_dim=8)).eval()
        model.set_attn_implementation({"": "sdpa", "text_config": "eager", "vision_config": "sdpa"})
        parts = lambda: [c._attn_implementation for c in (model.config, model.config.text_config, model.config.vision_config,
                                                           model.text_model.config, model.vision_model.config)]
        self.assertEqual(parts(), ["sdpa", "eager", "sdpa", "eager", "sdpa"])
        with qkv.observe(model) as seen, torch.no_grad():
            self.assertEqual(parts(), ["qkv"] * 5)
            model(input_ids=ids(), **image())
        self.assertEqual(len(seen), 4)
        self.assertEqual(parts(), ["sdpa", "eager", "sdpa", "eager", "sdpa"])

    def test_errors(self):
        with self.assertRaises(qkv.UsageError):
            qkv.observe(3)
        with self.assertRaises(qkv.UsageError):
            qkv.observe(build("vit", "qkv", torch.float32), colour=1)

    def test_models_without_the_interface_are_refused(self):
        model = hf.BloomForCausalLM(hf.BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4))
        with self.assertRaisesRegex(qkv.UnsupportedError, "BloomForCausalLM does not use the interface"):
            with qkv.observe(model):
                model(input_ids=ids())
        self.assertEqual(qkv.transformers._observers, [])

    def test_a_run_without_a_call_is_an_error(self):
        model = build("vit", "eager", torch.float32)
        with self.assertRaisesRegex(qkv.UnsupportedError, "ViTModel does not use the interface"):
            with qkv.observe(model), torch.no_grad():
                model.config._attn_implementation = "eager"
                model(**image())
        self.assertEqual(model.config._attn_implementation, "eager")
        with qkv.observe(model) as seen:  # no run
            pass
        self.assertEqual(len(seen), 0)
        with self.assertRaises(ZeroDivisionError), qkv.observe(model):
            1 / 0
        self.assertEqual((qkv.transformers._observers, len(model._forward_hooks)), ([], 0))


if __name__ == "__main__":
    unittest.main()

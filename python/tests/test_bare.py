# SPDX-License-Identifier: MIT
"""The quick start of docs/python.md in a Python without numpy, torch and other packages."""
import math
import os
import sys
import unittest

sys.modules.update(dict.fromkeys(("numpy", "torch", "tqdm")))  # None: an import fails, also where they are installed

import qkv  # noqa: E402

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(TOP, "tests", "golden", "sentences", "model")


def quick_start():
    """Runs the block on vectors of docs/python.md with a model of the tests; returns its names."""
    with open(os.path.join(TOP, "docs", "python.md"), encoding="utf-8") as f:
        blocks = f.read().split("```")[1::2]
    program, = (b.split("\n", 1)[1] for b in blocks if "import SentenceTransformer" in b)
    assert program.count('"all-MiniLM-L6-v2"') == 1, program
    program = program.replace('"all-MiniLM-L6-v2"', repr(MODEL)).replace("\nmodel.similarity(", "\nresult = model.similarity(")
    names = {}
    exec(program, names)
    return names


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


class Bare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = quick_start()
        cls.m, cls.vectors = cls.names["model"], cls.names["vectors"]

    def test_vectors(self):
        rows = self.vectors.tolist()
        self.assertEqual(self.vectors.shape, (3, self.m.get_embedding_dimension()))
        one = self.m.encode("a happy dog")
        self.assertEqual((one.shape, one.format), (self.vectors.shape[1:], "f"))
        self.assertEqual(one.tolist(), rows[0])  # the same bits alone
        self.assertEqual(self.m.encode([]), [])
        self.assertNotEqual(rows[0], rows[1])

    def test_similarities(self):
        rows, result = self.vectors.tolist(), self.names["result"]
        self.assertEqual(result.shape, (3, 3))
        for i in range(3):
            for j in range(3):
                self.assertAlmostEqual(result[i, j], cosine(rows[i], rows[j]), delta=2**-22)  # stored as a float of at most 1
        self.assertEqual(self.m.similarity_pairwise(self.vectors, rows).tolist(), [result[i, i] for i in range(3)])
        self.assertEqual(self.m.similarity(self.m.encode("a happy dog"), [self.m.encode("tax law")]).tolist(), [[result[0, 2]]])

    def test_the_four_similarities(self):
        a, b = [[3.0, 4.0], [0.0, 1.0]], [[3.0, 0.0]]
        for name, wanted in (("cosine", [.6, 0]), ("dot", [9, 0]), ("euclidean", [-4, -math.sqrt(10)]), ("manhattan", [-4, -4])):
            for found in (qkv.SimilarityFunction.to_similarity_fn(name)(a, b), qkv.SimilarityFunction.to_similarity_pairwise_fn(name)(a, b)):
                for x, y in zip(found.cast("B").cast("f"), wanted):
                    self.assertAlmostEqual(x, y, delta=2**-20, msg=name)

    def test_errors(self):
        for wrong in (3, "a", [[1.0], [1.0, 2.0]], [["a"]], [[[1.0]]], None):
            with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                self.m.similarity(wrong, self.vectors)
        with self.assertRaisesRegex(qkv.UsageError, "equal width"):
            self.m.similarity([[1.0]], self.vectors)
        for options in ({"normalize_embeddings": True}, {"truncate_dim": 2}, {"precision": "int8"}):
            with self.assertRaisesRegex(qkv.UnsupportedError, "numpy is not installed"):
                self.m.encode("a", **options)
        for options in ({"convert_to_tensor": True}, {"convert_to_numpy": False}, {"output_value": "token_embeddings"}, {"output_value": None}):
            with self.assertRaisesRegex(qkv.UnsupportedError, "torch is not installed"):
                self.m.encode([3], **options)  # before the texts are read
        with self.assertRaisesRegex(qkv.UnsupportedError, "numpy is not installed"):
            qkv.util.semantic_search(self.vectors, self.vectors)


if __name__ == "__main__":
    unittest.main()

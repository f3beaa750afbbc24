# SPDX-License-Identifier: MIT
"""spark_embed.py MODEL INPUT OUTPUT: embeds the lines of text files by Spark, to a folder of Parquet files.  Run it with
spark-submit, or with python on one machine."""
import sys

from pyspark.sql import SparkSession


def embed(model):
    def run(batches):  # once per partition
        import qkv
        qkv.set_threads(1)  # spark.task.cpus
        encoder = qkv.SentenceTransformer(model)
        for batch in batches:
            batch["vector"] = list(encoder.encode(list(batch["value"])))
            yield batch
    return run


if __name__ == "__main__":
    model, source, output = sys.argv[1:]
    spark = SparkSession.builder.appName("embed").getOrCreate()
    lines = spark.read.text(source)
    lines.mapInPandas(embed(model), "value string, vector array<float>").write.parquet(output)
    spark.stop()

"""A control vector for any model: one direction for each layer but the first, fixed by a seed."""
import array
import random

from . import gguf

SCALE = 0.05  # of a direction's entries: enough to move every logit, not enough to end in noise


def write(path, model_metadata):
    architecture = model_metadata["general.architecture"]
    width = model_metadata[f"{architecture}.embedding_length"]
    layers = model_metadata[f"{architecture}.block_count"]
    random_ = random.Random("direction")
    tensors = [(f"direction.{layer}", (width,), array.array("f", (random_.gauss(0, SCALE) for _ in range(width))))
               for layer in range(1, layers)]
    gguf.write(path, [("general.architecture", gguf.STRING, "controlvector"),
                      ("controlvector.model_hint", gguf.STRING, architecture),
                      ("controlvector.layer_count", gguf.U32, layers - 1)], tensors)

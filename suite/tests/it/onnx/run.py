"""Evaluates an ONNX file at several batches: `run.py MODEL BATCHES`.

BATCHES is JSON: a list of batches, each with `shape`, `type` and `values` of every input. The outputs are printed as JSON: for every
batch the shape and the values of each output, by name.
"""

import json
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
names = [output.name for output in session.get_outputs()]
results = []
with open(sys.argv[2]) as file:
    batches = json.load(file)
for batch in batches:
    inputs = {
        name: np.array(tensor["values"], tensor["type"]).reshape(tensor["shape"])
        for name, tensor in batch.items()
    }
    outputs = session.run(None, inputs)
    described = zip(names, outputs)
    results.append(
        {
            name: {"shape": output.shape, "values": output.astype(float).ravel().tolist()}
            for name, output in described
        }
    )
print(json.dumps(results))

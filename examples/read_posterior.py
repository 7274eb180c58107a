import json
import numpy as np

def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    notes = header.pop("__metadata__")
    at = lambda entry: slice(*entry["data_offsets"])
    return notes, {name: np.frombuffer(data[at(entry)], "<f4").reshape(entry["shape"]) for name, entry in header.items()}

notes, tensors = read("posterior.safetensors")
mean, factors, diag = tensors["mean"], tensors["factors"], tensors["diag"]
h, z = np.random.normal(size=len(factors)), np.random.normal(size=len(mean))
draw = mean + h @ factors + np.sqrt(diag) * z
for entry in json.loads(notes["layout"]):
    size = int(np.prod(entry["shape"]))
    print(entry["path"], draw[entry["offset"]:][:size].reshape(entry["shape"]))

"""Writes the files of this folder that come from PyTorch, for the examples `pretrained` and `from_onnx`.

    cargo run --example pretrained -- --out made
    python export.py made/digits.safetensors    # torch, onnx, onnxscript, safetensors
    onnx2burn --no-development digit_features.onnx .    # cargo install burn-onnx --version 0.22.0

The first line of `digit_features.rs` is ours.
"""

import json
import sys

import onnx
import torch
from safetensors.torch import load_file
from torch import nn


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3)
        self.bn1 = nn.BatchNorm2d(8)
        self.pool = nn.AvgPool2d(2)
        self.conv2 = nn.Conv2d(8, 16, 2)
        self.bn2 = nn.BatchNorm2d(16)

    def forward(self, pictures):
        hidden = torch.relu(self.bn1(self.conv1(pictures)))
        return torch.relu(self.bn2(self.conv2(self.pool(hidden)))).flatten(1)


class Net(Features):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(96, 10)

    def forward(self, pictures):
        return self.fc(super().forward(pictures))


net, features = Net(), Features()
weights = {name.removeprefix("module."): value for name, value in load_file(sys.argv[1]).items()}
net.load_state_dict(weights, strict=False)  # without the counters of batches
features.load_state_dict(net.state_dict(), strict=False)
net.eval(), features.eval()
torch.save(net.state_dict(), "digits.pth")

torch.manual_seed(0)
pictures = torch.randn(5, 1, 11, 9)
torch.onnx.export(
    features,
    (pictures,),
    "digit_features.onnx",
    input_names=["pictures"],
    output_names=["features"],
    dynamic_shapes=({0: torch.export.Dim("rows")},),
    opset_version=18,
    external_data=False,
)

# Without the places in this file and in PyTorch that the nodes come from.
model = onnx.load("digit_features.onnx")
for part in [*model.graph.node, *model.graph.initializer, *model.graph.value_info, model.graph]:
    del part.metadata_props[:]
    part.doc_string = ""
onnx.save(model, "digit_features.onnx")

with open("digit_outputs.json", "w") as file, torch.no_grad():
    outputs = {"pixels": pictures.flatten(1), "features": features(pictures), "logits": net(pictures)}
    json.dump({name: value.tolist() for name, value in outputs.items()}, file)

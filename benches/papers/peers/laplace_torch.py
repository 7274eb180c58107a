"""Laplace approximations by laplace-torch, on weights and data that are given by formulas.

Versions: Python 3.11, torch 2.15.0, laplace-torch 0.3, curvlinops-for-pytorch 3.0.1, backpack-for-pytorch 1.7.1. There is no
seed, because nothing is random. In a fresh virtual environment, from the root of the repository:

    pip install torch laplace-torch==0.3
    python benches/papers/peers/laplace_torch.py > suite/tests/it/golden/laplace_torch.json

The test `laplace::agrees_with_laplace_torch` computes the same with this library.
"""

import json
import math

import torch
from laplace import Laplace
from laplace.curvature import BackPackGGN
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROWS, NEW_ROWS, FEATURES, HIDDEN = 40, 5, 2, 4
PRIOR_PRECISION, NOISE_PRECISION = 0.7, 4.0


def wave(count, rate, phase):
    """Numbers between -1 and 1 without a pattern."""
    return [math.sin(rate * k * (1 + 0.01 * k) + phase) for k in range(count)]


def network(outputs):
    """tanh(x W + b) V + c, with weights in the order W, b, V, c, each [inputs, outputs] row by row."""
    hidden, output = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, outputs)
    model = nn.Sequential(hidden, nn.Tanh(), output).double()
    count = sum(parameter.numel() for parameter in model.parameters())
    weights = torch.tensor(wave(count, 2.7, 0.4), dtype=torch.double)
    with torch.no_grad():
        for layer in (hidden, output):
            rows, columns = layer.in_features, layer.out_features
            layer.weight.copy_(weights[: rows * columns].reshape(rows, columns).T)
            layer.bias.copy_(weights[rows * columns : rows * columns + columns])
            weights = weights[rows * columns + columns :]
    return model


def inputs(rows, phase):
    values = torch.tensor(wave(rows * FEATURES, 1.3, phase), dtype=torch.double)
    return 2.0 * values.reshape(rows, FEATURES)


def fitted(likelihood, subset, structure):
    x = inputs(ROWS, 0.1)
    if likelihood == "regression":
        outputs, y = 1, torch.tensor(wave(ROWS, 0.9, 0.2), dtype=torch.double).reshape(ROWS, 1)
        noise = {"sigma_noise": NOISE_PRECISION**-0.5}
    else:
        outputs, y = 3, torch.tensor([(k * k) % 7 % 3 for k in range(ROWS)])
        noise = {}
    laplace = Laplace(
        network(outputs),
        likelihood,
        subset_of_weights=subset,
        hessian_structure=structure,
        prior_precision=PRIOR_PRECISION,
        backend=BackPackGGN,
        **noise,
    )
    laplace.fit(DataLoader(TensorDataset(x, y), batch_size=ROWS))
    return laplace


def case(likelihood, subset, structure):
    laplace = fitted(likelihood, subset, structure)
    x = inputs(NEW_ROWS, 0.6)
    mean, covariance = laplace._glm_predictive_distribution(x)
    result = {
        "likelihood": likelihood,
        "subset": subset,
        "structure": structure,
        "log_marginal_likelihood": laplace.log_marginal_likelihood().item(),
        "mean": mean.detach().flatten().tolist(),
        "covariance": covariance.detach().flatten().tolist(),
    }
    if likelihood == "classification":
        probabilities = laplace(x, pred_type="glm", link_approx="probit")
        result["probit"] = probabilities.detach().flatten().tolist()
    return result


CASES = [("all", "diag"), ("all", "full"), ("last_layer", "full"), ("last_layer", "kron")]
print(
    json.dumps(
        [case(likelihood, *which) for likelihood in ("regression", "classification") for which in CASES],
        indent=1,
    )
)

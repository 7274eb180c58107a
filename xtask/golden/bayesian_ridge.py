"""Golden values of evidence maximisation in burn-bayes, from scikit-learn.

Run from the repository's root with a python3 that has numpy and scikit-learn:

    python3 xtask/golden/bayesian_ridge.py

It writes crates/burn-bayes-contrib/golden/bayesian_ridge.json. `BayesianRidge` runs without its gamma
hyperpriors and without an intercept, to its fixed point. Its `lambda_` is the precision of the
weights, its `alpha_` that of the noise.
"""

import json
import pathlib

import numpy
import sklearn
from sklearn.linear_model import BayesianRidge

SEED = 20240607
TARGET = pathlib.Path("crates/burn-bayes-contrib/golden/bayesian_ridge.json")


def case(generator, rows, features, noise, dependent):
    """Rows of a linear law; with `dependent`, the last feature is the sum of the others."""
    inputs = generator.normal(size=(rows, features)) * generator.uniform(0.5, 2.0, features)
    if dependent:
        inputs[:, -1] = inputs[:, :-1].sum(1)
    targets = inputs @ generator.normal(size=features) + noise * generator.normal(size=rows)
    model = BayesianRidge(
        max_iter=100_000,
        tol=1e-14,
        alpha_1=0.0,
        alpha_2=0.0,
        lambda_1=0.0,
        lambda_2=0.0,
        fit_intercept=False,
    ).fit(inputs, targets)
    return {
        "features": features,
        "inputs": inputs.ravel().tolist(),
        "targets": targets.tolist(),
        "prior_precision": float(model.lambda_),
        "noise_precision": float(model.alpha_),
        "mean": model.coef_.tolist(),
        "covariance": model.sigma_.ravel().tolist(),
    }


def main():
    generator = numpy.random.default_rng(SEED)
    values = {
        "source": {
            "script": "xtask/golden/bayesian_ridge.py",
            "seed": SEED,
            "numpy": numpy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "cases": [
            case(generator, 30, 3, 0.5, False),
            case(generator, 25, 5, 2.0, False),
            case(generator, 20, 4, 1.0, True),
            case(generator, 12, 1, 0.1, False),
        ],
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(values) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

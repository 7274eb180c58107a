"""Golden values of Gaussian-process regression in burn-bayes, from scikit-learn.

Run from the repository's root with a python3 that has numpy and scikit-learn:

    python3 xtask/golden/gaussian_process.py

It writes crates/burn-bayes-contrib/golden/gaussian_process.json. `GaussianProcessRegressor` runs without
its own jitter (alpha = 0) and with a `WhiteKernel` for the noise. The derivatives are by the
logarithms of the parameters, in the order of the expression, then of the noise variance.
`optimum` is the largest log marginal likelihood of ten starts of scikit-learn's optimiser.
"""

import json
import pathlib
import warnings

import numpy
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

SEED = 20240617
TARGET = pathlib.Path("crates/burn-bayes-contrib/golden/gaussian_process.json")


def linear():
    """The kernel xᵀy, which has no parameter here."""
    return DotProduct(sigma_0=0.0, sigma_0_bounds="fixed")


def case(generator, expression, kernel, width, noise, order):
    """One kernel; `order` gives the place of every parameter of ours in scikit-learn's theta."""
    rows = 25
    inputs = generator.uniform(-2.0, 2.0, size=(rows, width))
    targets = numpy.sin(2.0 * inputs.sum(1)) + 0.5 * inputs[:, 0]
    targets += 0.2 * generator.normal(size=rows)
    points = generator.uniform(-3.0, 3.0, size=(7, width))
    model = GaussianProcessRegressor(kernel + WhiteKernel(noise), alpha=0.0, optimizer=None)
    model.fit(inputs, targets)
    mean, covariance = model.predict(points, return_cov=True)
    # The covariance of predictions contains the noise of new targets.
    covariance = covariance - noise * numpy.eye(len(points))
    value, gradient = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    optimised = GaussianProcessRegressor(
        kernel + WhiteKernel(noise), alpha=0.0, n_restarts_optimizer=10, random_state=SEED
    ).fit(inputs, targets)
    return {
        "expression": expression,
        "width": width,
        "noise_variance": noise,
        "inputs": inputs.ravel().tolist(),
        "targets": targets.tolist(),
        "points": points.ravel().tolist(),
        "mean": mean.tolist(),
        "covariance": covariance.ravel().tolist(),
        "log_marginal_likelihood": float(value),
        "gradient": [float(gradient[place]) for place in order],
        "has_all_parameters": len(order) == len(gradient),
        "optimum": float(optimised.log_marginal_likelihood_value_),
    }


def main():
    warnings.simplefilter("ignore", ConvergenceWarning)
    generator = numpy.random.default_rng(SEED)
    values = {
        "source": {
            "script": "xtask/golden/gaussian_process.py",
            "seed": SEED,
            "numpy": numpy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "cases": [
            case(generator, "rbf(0.7)", RBF(0.7), 1, 0.04, [0, 1]),
            case(
                generator,
                "2*rbf(0.7,1.9)",
                ConstantKernel(2.0) * RBF([0.7, 1.9]),
                2,
                0.05,
                [0, 1, 2, 3],
            ),
            case(generator, "matern12(1.3)", Matern(1.3, nu=0.5), 2, 0.1, [0, 1]),
            case(
                generator,
                "0.5*matern32(1.3,0.8,2)",
                ConstantKernel(0.5) * Matern([1.3, 0.8, 2.0], nu=1.5),
                3,
                0.1,
                [0, 1, 2, 3, 4],
            ),
            case(generator, "matern52(0.9)", Matern(0.9, nu=2.5), 1, 0.02, [0, 1]),
            case(
                generator,
                "rational_quadratic(0.6,1.1)",
                RationalQuadratic(1.1, 0.6),
                2,
                0.1,
                # scikit-learn sorts by name: alpha, length_scale.
                [0, 1, 2],
            ),
            case(
                generator,
                "periodic(3.1,0.9)",
                ExpSineSquared(0.9, 3.1),
                1,
                0.1,
                # length_scale, periodicity.
                [1, 0, 2],
            ),
            case(
                generator,
                "0.3*rbf(1.4) + periodic(3.1,0.9)*(0.2 + matern32(5))",
                ConstantKernel(0.3) * RBF(1.4)
                + ExpSineSquared(0.9, 3.1) * (ConstantKernel(0.2) + Matern(5.0, nu=1.5)),
                1,
                0.05,
                [0, 1, 3, 2, 4, 5, 6],
            ),
        ],
        "linear": case(
            generator,
            "0.4 + 1.5*linear(1)",
            ConstantKernel(0.4) + ConstantKernel(1.5) * linear(),
            2,
            0.1,
            [0, 1, 2],
        ),
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(values) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

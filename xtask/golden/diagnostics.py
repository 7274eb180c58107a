"""Golden values of the diagnostics in burn-bayes-eval, from ArviZ.

Run from the repository's root with a python3 that has numpy, scipy and arviz (below version 1):

    python3 xtask/golden/diagnostics.py

It writes crates/burn-bayes-eval/tests/it/golden/diagnostics.json. The inputs are not stored: they
follow from the settings of a case by the formulas of `uniforms`, `log_ratios` and `sequences`, which
the Rust tests repeat. Undefined and infinite values are null.
"""

import json
import math
import pathlib

import arviz
import numpy

TARGET = pathlib.Path("crates/burn-bayes-eval/tests/it/golden/diagnostics.json")


def uniforms(number, seed):
    """u = (s + 1/2)/2^31 of the states s of a linear congruential generator."""
    values, state = [], seed
    for _ in range(number):
        state = (1103515245 * state + 12345) % 2**31
        values.append((state + 0.5) / 2**31)
    return numpy.array(values)


def log_ratios(draws, seed, shape, offset, step):
    """offset + ln((exp(shape e) - 1)/shape) with e exponential, rounded to multiples of step > 0."""
    e = -numpy.log1p(-uniforms(draws, seed))
    if shape == 0:
        values = numpy.log(e)
    else:
        values = numpy.maximum(shape * e, 0) + numpy.log(-numpy.expm1(-abs(shape) * e) / abs(shape))
    if step > 0:
        values = numpy.floor(values / step) * step
    return offset + values


def importance():
    cases = []
    for draws, seed, shape, offset, step in [
        *((draws, 11 * draws + i, shape, 0.0, 0.0)
          for draws in (100, 2000)
          for i, shape in enumerate([-0.5, 0.0, 0.3, 0.6, 1.2])),
        (20, 1, 0.5, 0.0, 0.0),  # no tail
        (21, 2, 0.5, 0.0, 0.0),  # the smallest tail
        (60, 3, 0.5, -5e4, 0.0),
        (100, 4, 60.0, 0.0, 0.0),
        (2000, 5, 400.0, 0.0, 0.0),  # most weights underflow
        (2000, 6, 2000.0, 0.0, 0.0),  # almost all weights underflow
        (100, 7, 0.4, 0.0, 0.25),
        (2000, 8, 0.4, 0.0, 0.5),
    ]:
        ratios = log_ratios(draws, seed, shape, offset, step)
        log_weights, k = arviz.psislw(ratios)
        log_weights = numpy.asarray(log_weights)
        if step > 0:  # ArviZ smooths equal ratios differently, depending on their order
            for value in numpy.unique(ratios):
                equal = ratios == value
                log_weights[equal] = math.log(numpy.exp(log_weights[equal]).mean())
        chosen = {*numpy.argsort(ratios)[-5:].tolist(), *range(0, draws, draws // 10)}
        cases.append(
            {
                "draws": draws,
                "seed": seed,
                "shape": shape,
                "offset": offset,
                "step": step,
                "pareto_k": float(k),
                "effective_sample_size": float(1 / numpy.exp(2 * log_weights).sum()),
                "log_weights": [[draw, float(log_weights[draw])] for draw in sorted(chosen)],
            }
        )
    return cases


def sequences(number, length, seed, memory, shift, growth, step):
    """x_t = memory x_{t-1} + z_t with z logistic; sequence c is x growth^c + c shift."""
    z = uniforms(number * length, seed)
    z = numpy.log(z / (1 - z)).reshape(number, length)
    x = numpy.zeros_like(z)
    x[:, 0] = z[:, 0]
    for t in range(1, length):
        x[:, t] = memory * x[:, t - 1] + z[:, t]
    c = numpy.arange(number)[:, None]
    x = x * growth**c + c * shift
    return numpy.floor(x / step) * step if step > 0 else x


def convergence():
    cases = []
    for case in [
        (2, 4, 1, 0.0, 0.0, 1.0, 0.0),
        (2, 51, 2, 0.5, 0.0, 1.0, 0.0),
        (2, 100, 3, 0.0, 3.0, 1.0, 0.0),
        (4, 250, 4, 0.9, 0.0, 1.0, 0.0),
        (4, 250, 5, -0.6, 0.0, 1.0, 0.0),
        (4, 200, 6, 0.3, 0.0, 2.0, 0.0),
        (3, 101, 7, 0.5, 0.2, 1.0, 2.0),
    ]:
        values = sequences(*case)
        cases.append(
            {
                **dict(zip(["number", "length", "seed", "memory", "shift", "growth", "step"], case)),
                "r_hat": float(arviz.rhat(values, method="rank")),
                "bulk_effective_sample_size": float(arviz.ess(values, method="bulk")),
            }
        )
    return cases


def finite(value):
    """The value with null in place of numbers that JSON does not know."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main():
    source = {
        "script": "xtask/golden/diagnostics.py",
        "numpy": numpy.__version__,
        "arviz": arviz.__version__,
    }
    parts = [f'  "source": {json.dumps(source)}']
    for name, cases in [("importance", importance()), ("convergence", convergence())]:
        lines = ",\n".join(f"    {json.dumps(finite(case), allow_nan=False)}" for case in cases)
        parts.append(f'  "{name}": [\n{lines}\n  ]')
    TARGET.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

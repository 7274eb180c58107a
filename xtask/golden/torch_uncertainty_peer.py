"""Golden values of the crate burn-bayes-eval, from torch-uncertainty and torchmetrics.

Run from the repository's root with a python3 that has these packages (pip install torch torchvision
torch-uncertainty rich):

    python3 xtask/golden/torch_uncertainty_peer.py

It writes crates/burn-bayes-eval/tests/it/golden/torch_uncertainty.json, with the versions and the seed. Everything is
computed in double precision; no two scores are equal, so that the order of ties does not matter. Where the peer
defines a score differently (areas by the trapezoid rule), its value is stored and the test states the relation.
"""

import pathlib

import numpy
import torch
import torch_uncertainty
import torchmetrics
from torch_uncertainty.metrics import classification, regression, segmentation, sparsification

from eval import conformal_threshold, plain, text

SEED = 20261124
TARGET = pathlib.Path("crates/burn-bayes-eval/tests/it/golden/torch_uncertainty.json")


def value(metric, *inputs):
    """The value of a metric after one update, in double precision."""
    metric.set_dtype(torch.float64)
    metric.update(*[torch.as_tensor(item) for item in inputs])
    return float(metric.compute())


def labelled(generator, rows, classes):
    probabilities = generator.dirichlet(numpy.full(classes, 0.6), size=rows)
    labels = numpy.array([generator.choice(classes, p=0.8 * p + 0.2 / classes) for p in probabilities])
    return probabilities, labels


def selective(generator):
    rows, out_rows, classes = 120, 40, 3
    probabilities, labels = labelled(generator, rows, classes)
    uncertainty = 1.0 - probabilities.max(axis=1)
    errors = (probabilities.argmax(axis=1) != labels).astype(float)
    out_uncertainty = generator.uniform(0.0, 1.0, size=out_rows)
    together = numpy.concatenate([uncertainty, out_uncertainty])
    is_out = numpy.arange(rows + out_rows) >= rows
    absolute = uncertainty * numpy.abs(generator.normal(size=rows))
    return {
        "uncertainty": uncertainty,
        "errors": errors,
        "out_uncertainty": out_uncertainty,
        "absolute": absolute,
        "aurc": value(classification.AURC(), probabilities, labels),
        "augrc": value(classification.AUGRC(), probabilities, labels),
        "risk_at_80": value(classification.RiskAt80Cov(), probabilities, labels),
        "coverage_at_20": value(classification.CovAtxRisk(0.2), probabilities, labels),
        "ause": value(sparsification.AUSE(), uncertainty, absolute),
        "fpr95": value(classification.FPR95(pos_label=1), together, is_out.astype(int)),
    }


def calibration(generator):
    rows, classes, bins = 240, 4, 8
    probabilities, labels = labelled(generator, rows, classes)
    one_hot = numpy.eye(classes, dtype=int)[labels]
    return {
        "classes": classes,
        "bins": bins,
        "probabilities": probabilities.ravel(),
        "labels": labels,
        "equal_mass": value(
            classification.AdaptiveCalibrationError("multiclass", bins, num_classes=classes),
            probabilities,
            labels,
        ),
        "equal_width": value(
            classification.CalibrationError("multiclass", num_bins=bins, num_classes=classes),
            probabilities,
            labels,
        ),
        "classwise": value(
            classification.ClasswiseCalibrationError(num_classes=classes, num_bins=bins),
            probabilities,
            one_hot,
        ),
        "smooth": value(
            classification.SmoothCalibrationError(kernel_type="reflected"), probabilities, labels
        ),
        "brier": value(classification.BrierScore(classes), probabilities, one_hot),
        "nll": value(classification.CategoricalNLL(), probabilities, labels),
    }


def draws(generator):
    rows, members, classes = 40, 5, 3
    centre = generator.dirichlet(numpy.ones(classes), size=rows)
    tables = numpy.array([[generator.dirichlet(0.5 + 4.0 * c) for c in centre] for _ in range(members)])
    by_row = numpy.swapaxes(tables, 0, 1).copy()
    return {
        "draws": members,
        "classes": classes,
        "probabilities": tables.ravel(),
        "entropy": value(classification.Entropy(), by_row),
        "mutual_information": value(classification.MutualInformation(), by_row),
    }


def intervals(generator):
    rows, level, bins = 80, 0.8, 19
    means, deviations = generator.normal(size=rows), generator.gamma(4.0, 0.25, size=rows)
    targets = means + 1.3 * deviations * generator.normal(size=rows)
    normal = torch.distributions.Normal(torch.as_tensor(means), torch.as_tensor(deviations))
    lower = normal.icdf(torch.tensor(0.5 * (1.0 - level), dtype=torch.float64))
    upper = normal.icdf(torch.tensor(0.5 * (1.0 + level), dtype=torch.float64))

    def of_distribution(metric):
        metric.set_dtype(torch.float64)
        metric.update(normal, torch.as_tensor(targets))
        return float(metric.compute())

    return {
        "level": level,
        "bins": bins,
        "means": means,
        "precisions": deviations**-2.0,
        "targets": targets,
        "coverage": value(regression.IntervalCoverage(), lower, upper, targets),
        "width": value(regression.MeanIntervalWidth(), lower, upper),
        "score": value(regression.IntervalScore(level), lower, upper, targets),
        "nll": of_distribution(regression.DistributionNLL(reduction="mean")),
        "central_calibration_error": of_distribution(regression.QuantileCalibrationError(bins)),
    }


def pixels(generator):
    images, classes, side, patch = 3, 3, 8, 3
    probabilities = generator.dirichlet(numpy.full(classes, 0.5), size=(images, side, side))
    labels = generator.integers(0, classes, size=(images, side, side))
    first = numpy.moveaxis(probabilities, 3, 1).copy()
    flat = probabilities.reshape(-1, classes)
    predicted = flat.argmax(axis=1)
    level = 0.6
    held = 1.0 - flat <= conformal_threshold(1.0 - flat[numpy.arange(len(flat)), labels.ravel()], level)
    return {
        "classes": classes,
        "side": side,
        "patch": patch,
        "probabilities": probabilities.ravel(),
        "labels": labels.ravel(),
        "mean_intersection_over_union": value(
            segmentation.MeanIntersectionOverUnion(classes), torch.as_tensor(predicted), labels.ravel()
        ),
        # Patches have at most nine pixels and no accuracy of exactly the threshold.
        "pavpu": value(
            segmentation.PAvPU(patch_size=patch, acc_threshold=0.4, unc_threshold=0.35), first, labels
        ),
        "level": level,
        "coverage": value(classification.CoverageRate(), held, labels.ravel()),
        "size": value(classification.SetSize(), held),
    }


def main():
    torch.set_default_dtype(torch.float64)
    sections = [selective, calibration, draws, intervals, pixels]
    values = {
        "source": {
            "script": "xtask/golden/torch_uncertainty_peer.py",
            "seed": SEED,
            "torch": torch.__version__,
            "torch-uncertainty": torch_uncertainty.__version__,
            "torchmetrics": torchmetrics.__version__,
            "numpy": numpy.__version__,
        },
    }
    for index, section in enumerate(sections):
        values[section.__name__] = section(numpy.random.default_rng([SEED, index]))
    TARGET.write_text(text(plain(values)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Golden values of the crate burn-bayes-eval, from scikit-learn, SciPy and NumPy.

Run from the repository's root with a python3 that has numpy, scipy and scikit-learn:

    python3 xtask/golden/eval.py

It writes crates/burn-bayes-eval/tests/it/golden/eval.json. The inputs are drawn from one seeded
generator and stored with the expected values, so the Rust tests need nothing else. Wherever a
library offers the score it is used; otherwise the value is computed along another road than the
crate takes: by numerical integration, by root finding, or by listing all orders of the rows.
"""

import itertools
import json
import math
import pathlib

import numpy
import scipy
import sklearn
from scipy import integrate, optimize, special, stats
from sklearn import metrics

SEED = 20240607
TARGET = pathlib.Path("crates/burn-bayes-eval/tests/it/golden/eval.json")


def plain(value):
    """Nested lists and numbers that JSON knows; undefined values become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, numpy.ndarray):
        return plain(value.tolist())
    if isinstance(value, numpy.generic):
        return plain(value.item())
    if isinstance(value, float) and math.isnan(value):
        return None
    return value


def text(value, indent=""):
    """JSON with one line per named value, so that a change shows where it happened."""
    if not isinstance(value, dict):
        return json.dumps(value, allow_nan=False)
    inner = indent + "  "
    items = [f"{inner}{json.dumps(key)}: {text(item, inner)}" for key, item in value.items()]
    return "{\n" + ",\n".join(items) + f"\n{indent}}}"


def calibration_error(confidence, hit, bins):
    """(expected, maximum) gap over bins of equal width, each open below and closed above."""
    edges = numpy.arange(bins + 1) / bins
    index = numpy.clip(numpy.digitize(confidence, edges, right=True) - 1, 0, bins - 1)
    gaps, weights = [], []
    for b in range(bins):
        chosen = index == b
        if chosen.any():
            gaps.append(abs(hit[chosen].mean() - confidence[chosen].mean()))
            weights.append(chosen.mean())
    return float(numpy.dot(gaps, weights)), max(gaps)


def equal_mass_error(confidence, hit, bins):
    """The same for bins of equal numbers of rows; the confidences are all different."""
    order = numpy.argsort(confidence)
    gaps = [abs(hit[part].mean() - confidence[part].mean()) for part in numpy.split(order, bins)]
    return float(numpy.mean(gaps)), max(gaps)


def classification(generator):
    draws, rows, classes, bins = 7, 60, 3, 10
    centre = generator.dirichlet(numpy.full(classes, 0.8), size=rows)
    probabilities = numpy.array(
        [[generator.dirichlet(1.0 + 6.0 * c) for c in centre] for _ in range(draws)]
    )
    labels = numpy.array([generator.choice(classes, p=c) for c in centre])
    average = probabilities.mean(axis=0)
    predicted = average.argmax(axis=1)
    confidence, hit = average.max(axis=1), (predicted == labels).astype(float)
    width, mass = calibration_error(confidence, hit, bins), equal_mass_error(confidence, hit, bins)
    classwise = [
        calibration_error(average[:, c], (labels == c).astype(float), bins)[0]
        for c in range(classes)
    ]
    votes = probabilities.argmax(axis=2)
    return {
        "draws": draws,
        "rows": rows,
        "classes": classes,
        "bins": bins,
        "probabilities": probabilities.ravel(),
        "labels": labels,
        "nll": metrics.log_loss(labels, average),
        "brier": metrics.brier_score_loss(labels, average, scale_by_half=False),
        "accuracy": metrics.accuracy_score(labels, predicted),
        "macro_f1": metrics.f1_score(labels, predicted, average="macro"),
        "f1": metrics.f1_score(labels, predicted, average=None),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, predicted),
        "one_vs_rest_auroc": metrics.roc_auc_score(labels, average, multi_class="ovr"),
        "predictive_entropy": stats.entropy(average, axis=1),
        "expected_entropy": stats.entropy(probabilities, axis=2).mean(axis=0),
        # As the mean divergence of the draws from their average.
        "mutual_information": stats.entropy(probabilities, average[None], axis=2).mean(axis=0),
        "max_probability": confidence,
        "variation_ratio": 1.0 - stats.mode(votes, axis=0).count / draws,
        "model_disagreement": numpy.var(probabilities, axis=0).sum(axis=1),
        "equal_width": {"expected": width[0], "maximum": width[1]},
        "equal_mass": {"expected": mass[0], "maximum": mass[1]},
        "classwise": float(numpy.mean(classwise)),
    }


def referral(labels, positive, uncertainty, fraction):
    """Scores of the most certain rows, with tied rows at the cut weighted by the share that stays."""
    rows = len(labels)
    kept = math.ceil(round(fraction * rows, 9))
    cut = numpy.sort(uncertainty)[kept - 1]
    below, tied = uncertainty < cut, uncertainty == cut
    weight = below + tied * (kept - below.sum()) / tied.sum()
    chosen = weight > 0
    y, p, w = labels[chosen], positive[chosen], weight[chosen]
    predicted = (p > 0.5).astype(int)
    return {
        "kept_fraction": fraction,
        "kept": kept,
        "accuracy": metrics.accuracy_score(y, predicted, sample_weight=w),
        "balanced_accuracy": metrics.recall_score(
            y, predicted, labels=numpy.unique(y), average="macro", sample_weight=w
        ),
        "macro_f1": metrics.f1_score(y, predicted, average="macro", sample_weight=w),
        "binary_f1": metrics.f1_score(y, predicted, sample_weight=w, zero_division=numpy.nan),
        "auroc": metrics.roc_auc_score(y, p, sample_weight=w) if 0 < y.sum() < len(y) else None,
    }


def binary(generator):
    rows = 80
    labels = generator.integers(0, 2, size=rows)
    # Two decimals, so that scores tie within and across the classes.
    logits = generator.normal(1.2 * (2 * labels - 1), 1.5)
    positive = numpy.clip(numpy.round(special.expit(logits), 2), 0.01, 0.99)
    predicted = (positive > 0.5).astype(int)
    uncertainty = numpy.round(1.0 - numpy.maximum(positive, 1.0 - positive), 1)
    false_rate, true_rate, _ = metrics.roc_curve(labels, positive, drop_intermediate=False)
    return {
        "positive": positive,
        "labels": labels,
        "uncertainty": uncertainty,
        "nll": metrics.log_loss(labels, positive),
        "halved_brier": metrics.brier_score_loss(labels, positive),
        "f1": metrics.f1_score(labels, predicted),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, predicted),
        "auroc": metrics.roc_auc_score(labels, positive),
        "average_precision": metrics.average_precision_score(labels, positive),
        "false_positive_rate_at_95": false_rate[true_rate >= 0.95].min(),
        "referral": [
            referral(labels, positive, uncertainty, fraction)
            for fraction in [1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.05]
        ],
    }


def areas(losses):
    """(AURC, AUGRC) of losses in the order in which their rows are kept."""
    cumulated = numpy.cumsum(losses)
    rows = len(losses)
    risks = cumulated / numpy.arange(1, rows + 1)
    joint = numpy.concatenate([[0.0], cumulated]) / rows
    return float(risks.mean()), float(integrate.trapezoid(joint, dx=1.0 / rows))


def selective():
    """Ties by brute force: the mean over all orders of eight rows that sort the uncertainty."""
    uncertainty = numpy.array([0.5, 0.1, 0.5, 0.3, 0.1, 0.9, 0.5, 0.9])
    losses = numpy.array([1.0, 0.0, 0.25, 0.5, 1.0, 0.0, 0.0, 1.0])
    orders = [
        list(order)
        for order in itertools.permutations(range(len(losses)))
        if (numpy.diff(uncertainty[list(order)]) >= 0).all()
    ]
    every = numpy.array([areas(losses[order]) for order in orders])
    optimal = min(areas(losses[list(order)])[0] for order in itertools.permutations(range(8)))
    risks = [
        float(numpy.mean([losses[order][: k + 1].mean() for order in orders])) for k in range(8)
    ]
    return {
        "uncertainty": uncertainty,
        "losses": losses,
        "risks": risks,
        "aurc": every[:, 0].mean(),
        "augrc": every[:, 1].mean(),
        "optimal_aurc": optimal,
    }


def mixture_crps(means, deviations, target):
    """The integral of (F(x) − [x ≥ y])², cut where the integrand is below 1e-60."""

    def distribution(x):
        return stats.norm.cdf(x, means, deviations).mean()

    def survival(x):
        return stats.norm.sf(x, means, deviations).mean()

    low = min((means - 12 * deviations).min(), target)
    high = max((means + 12 * deviations).max(), target)
    total, bound = 0.0, 0.0
    knots = sorted({low, high, target, *(m for m in means)})
    for a, b in itertools.pairwise(knots):
        side = distribution if b <= target else survival
        value, error = integrate.quad(lambda x: side(x) ** 2, a, b, epsabs=1e-15, limit=500)
        total, bound = total + value, bound + error
    return total, bound


def mixture_quantile(means, deviations, probability):
    low, high = (means - 10 * deviations).min(), (means + 10 * deviations).max()

    def gap(x):
        return stats.norm.cdf(x, means, deviations).mean() - probability

    return optimize.brentq(gap, low, high, xtol=1e-15, rtol=4 * numpy.finfo(float).eps)


def regression(generator):
    draws, rows, levels, level = 5, 12, 9, 0.8
    centre = generator.normal(0.0, 2.0, size=rows)
    means = centre + generator.normal(0.0, 0.7, size=(draws, rows))
    precisions = generator.gamma(4.0, 1.0, size=(draws, rows))
    deviations = 1.0 / numpy.sqrt(precisions)
    targets = centre + generator.normal(0.0, 0.9, size=rows)
    log_components = stats.norm.logpdf(targets, means, deviations)
    log_densities = special.logsumexp(log_components, axis=0) - math.log(draws)
    pit = stats.norm.cdf(targets, means, deviations).mean(axis=0)
    tail = 0.5 * (1.0 - level)
    columns = [(means[:, r], deviations[:, r]) for r in range(rows)]
    scores = [mixture_crps(*column, target) for column, target in zip(columns, targets)]
    lower = numpy.array([mixture_quantile(*column, tail) for column in columns])
    upper = numpy.array([mixture_quantile(*column, 1.0 - tail) for column in columns])
    stated = numpy.arange(1, levels + 1) / (levels + 1)
    gaps = numpy.abs((pit[:, None] <= stated).mean(axis=0) - stated)
    return {
        "draws": draws,
        "rows": rows,
        "levels": levels,
        "level": level,
        "means": means.ravel(),
        "precisions": precisions.ravel(),
        "targets": targets,
        "rmse": metrics.root_mean_squared_error(targets, means.mean(axis=0)),
        "mean": means.mean(axis=0),
        "variance": (deviations**2).mean(axis=0) + means.var(axis=0),
        "log_densities": log_densities,
        "crps": [score for score, _ in scores],
        "crps_bound": [bound for _, bound in scores],
        "pit": pit,
        "lower": lower,
        "upper": upper,
        "coverage": ((pit >= tail) & (pit <= 1.0 - tail)).mean(),
        "mean_width": (upper - lower).mean(),
        "quantile_mean_absolute_error": gaps.mean(),
    }


def gaussian():
    """CRPS of single Gaussians: (mean, deviation, target, score, bound of the integration)."""
    cases = []
    for mean, deviation, target in [(0, 1, 0), (0, 1, 1), (2, 0.5, -1), (-3, 4, 10), (1, 2, 1.25)]:
        m, d = numpy.array([float(mean)]), numpy.array([float(deviation)])
        score, bound = mixture_crps(m, d, float(target))
        cases.append([float(mean), float(deviation), float(target), score, bound])
    return cases


def temperature(generator):
    """The temperature as the root of the slope of the NLL in T itself, from its own derivative."""
    rows, classes = 50, 4
    logits = generator.normal(0.0, 3.0, size=(rows, classes))
    labels = numpy.array([generator.choice(classes, p=special.softmax(z / 2.5)) for z in logits])

    def slope(value):
        expected = (special.softmax(logits / value, axis=1) * logits).sum(axis=1)
        return (logits[numpy.arange(rows), labels] - expected).sum() / value**2

    value = optimize.brentq(slope, 0.5, 10.0, xtol=1e-15, rtol=4 * numpy.finfo(float).eps)
    scaled = special.softmax(logits / value, axis=1)
    return {
        "rows": rows,
        "classes": classes,
        "probabilities": special.softmax(logits, axis=1).ravel(),
        "labels": labels,
        "value": value,
        "scaled": scaled.ravel(),
        "nll": metrics.log_loss(labels, scaled),
    }


def conformal_threshold(scores, level):
    rank = math.ceil(round((len(scores) + 1) * level, 9))
    return numpy.sort(scores)[rank - 1] if rank <= len(scores) else math.inf


def conformal_classification(generator):
    calibration_rows, rows, classes, level = 40, 15, 5, 0.8
    probabilities = generator.dirichlet(numpy.full(classes, 0.6), size=calibration_rows + rows)
    labels = numpy.array([generator.choice(classes, p=p) for p in probabilities])

    # The mass at or above each class, by comparing all pairs; no two probabilities are equal.
    above = probabilities[:, :, None] <= probabilities[:, None, :]
    mass = (above * probabilities[:, None, :]).sum(axis=2)
    scores = {
        "lac": 1.0 - probabilities,
        "aps": mass,
    }
    methods = {}
    for name, table in scores.items():
        known = table[numpy.arange(calibration_rows), labels[:calibration_rows]]
        threshold = conformal_threshold(known, level)
        held = table[calibration_rows:] <= threshold
        methods[name] = {
            "threshold": threshold,
            "sets": [numpy.flatnonzero(row) for row in held],
            "coverage": held[numpy.arange(rows), labels[calibration_rows:]].mean(),
            "mean_size": held.sum(axis=1).mean(),
        }
    return {
        "calibration_rows": calibration_rows,
        "rows": rows,
        "classes": classes,
        "level": level,
        "probabilities": probabilities.ravel(),
        "labels": labels,
        **methods,
    }


def conformal_regression(generator):
    rows, level = 30, 0.9
    spreads = generator.gamma(3.0, 0.5, size=rows)
    predicted = generator.normal(0.0, 2.0, size=rows)
    targets = predicted + spreads * generator.standard_t(5, size=rows)
    residuals = numpy.abs(targets - predicted)
    return {
        "level": level,
        "predicted": predicted,
        "spreads": spreads,
        "targets": targets,
        "threshold": conformal_threshold(residuals, level),
        "normalised_threshold": conformal_threshold(residuals / spreads, level),
    }


def bootstrap(generator):
    """SciPy's intervals from a bootstrap distribution that is stored."""
    values, resamples, level = generator.gamma(1.5, 1.0, size=25), 400, 0.9
    result = stats.bootstrap(
        (values,), numpy.mean, n_resamples=resamples, method="BCa", rng=generator
    )
    intervals = {}
    for method in ["percentile", "BCa"]:
        again = stats.bootstrap(
            (values,),
            numpy.mean,
            n_resamples=0,
            bootstrap_result=result,
            method=method,
            confidence_level=level,
        )
        intervals[method.lower()] = list(again.confidence_interval)
    return {
        "values": values,
        "level": level,
        "scores": result.bootstrap_distribution,
        "standard_error": result.standard_error,
        **intervals,
    }


def paired(generator):
    """Two methods' losses on the same rows, few and many, with tied and equal ones."""
    cases = []
    for rows, decimals in [(9, 3), (12, 1), (40, 6), (80, 1), (200, 6)]:
        first = numpy.round(generator.gamma(2.0, 0.5, size=rows), decimals)
        second = numpy.round(first + generator.normal(0.1, 0.4, size=rows), decimals)
        differences = numpy.round(first - second, decimals)
        t = stats.ttest_1samp(differences, 0.0)
        cases.append({"differences": differences, "t": [t.statistic, t.pvalue]})
    return cases


def clopper_pearson():
    """(events, trials, tail, lower, upper): each limit one-sided, as a quantile of a beta law."""
    cases = []
    for events, trials, tail in [
        (0, 10, 0.05),
        (10, 10, 0.05),
        (3, 20, 0.01),
        (57, 1000, 0.0125),
        (4900, 10000, 0.001),
        (120, 60000, 0.025),
    ]:
        rest = trials - events
        lower = special.betaincinv(events, rest + 1, tail) if events else 0.0
        upper = special.betainccinv(events + 1, rest, tail) if rest else 1.0
        cases.append([events, trials, tail, lower, upper])
    return cases


def main():
    generator = numpy.random.default_rng(SEED)
    values = {
        "source": {
            "script": "xtask/golden/eval.py",
            "seed": SEED,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "classification": classification(generator),
        "binary": binary(generator),
        "selective": selective(),
        "regression": regression(generator),
        "gaussian": gaussian(),
        "temperature": temperature(generator),
        "conformal_classification": conformal_classification(generator),
        "conformal_regression": conformal_regression(generator),
        "bootstrap": bootstrap(generator),
        "paired": paired(generator),
        "clopper_pearson": clopper_pearson(),
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text(plain(values)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

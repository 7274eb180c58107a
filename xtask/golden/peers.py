"""Golden values of the crate burn-bayes-eval, from MAPIE, relplot, scikit-learn, statsmodels, SciPy and NumPy.

Run from the repository's root with a python3 that has these packages (pip install numpy scipy
scikit-learn mapie relplot statsmodels):

    python3 xtask/golden/peers.py

It writes crates/burn-bayes-eval/tests/it/golden/peers.json, with the versions and the seed. Wherever
one of the packages offers the score it is used; otherwise the value is computed along another road
than the crate takes.
"""

import json
import math
import pathlib
import warnings

import mapie
import numpy
import relplot
import scipy
import sklearn
import statsmodels
from mapie import classification
from mapie import regression as conformal_regression
from mapie.conformity_scores.sets.raps import RAPSConformityScore
from mapie.metrics import classification as mapie_classification
from mapie.metrics import regression as mapie_regression
from scipy import integrate, optimize, spatial, special, stats
from sklearn import (
    covariance,
    linear_model,
    metrics,
    model_selection,
    neighbors,
    preprocessing,
)
from statsmodels.stats import multitest

from eval import conformal_threshold, plain, text

SEED = 20261123
TARGET = pathlib.Path("crates/burn-bayes-eval/tests/it/golden/peers.json")


def overconfident(generator, rows, classes):
    """Probabilities that are sharper than the law of the labels, no two of them equal."""
    logits = generator.normal(0.0, 1.2, size=(rows, classes))
    labels = numpy.array([generator.choice(classes, p=special.softmax(z)) for z in logits])
    skewed = 1.7 * logits + numpy.linspace(0.0, 0.4, classes)
    return special.softmax(skewed, axis=1), labels


def bins_of(order, bins):
    rows = len(order)
    return [order[b * rows // bins : (b + 1) * rows // bins] for b in range(bins)]


def adaptive_error(probabilities, labels, bins):
    errors = []
    for c in range(probabilities.shape[1]):
        p, hit = probabilities[:, c], labels == c
        parts = bins_of(numpy.argsort(p), min(bins, len(p)))
        errors.append(sum(abs(hit[b].sum() - p[b].sum()) for b in parts) / max(1, len(p)))
    return numpy.mean(errors)


def smooth_error(confidence, hit):
    """smECE by images of the kernel, adaptive quadrature and root finding."""

    def error(sigma):
        def height(t):
            total = 0.0
            for k in range(-6, 7):
                total += stats.norm.pdf(t - confidence + 2 * k, scale=sigma)
                total += stats.norm.pdf(t + confidence + 2 * k, scale=sigma)
            return abs(((hit - confidence) * total).mean())

        grid = numpy.linspace(0.0, 1.0, 4001)
        return integrate.simpson([height(t) for t in grid], x=grid)

    return optimize.brentq(lambda sigma: error(sigma) - sigma, 0.01, 1.0, xtol=1e-7)


def poisson_binomial(confidence, hits):
    """By inverting the characteristic function."""
    rows = len(confidence)
    angles = 2j * math.pi * numpy.arange(rows + 1) / (rows + 1)
    transform = numpy.prod(1 + confidence[:, None] * (numpy.exp(angles) - 1), axis=0)
    masses = numpy.fft.fft(transform).real / (rows + 1)
    return min(1.0, 2.0 * min(masses[: hits + 1].sum(), masses[hits:].sum()))


def calibration(generator):
    rows, classes, bins = 240, 4, 8
    probabilities, labels = overconfident(generator, rows, classes)
    confidence, predicted = probabilities.max(axis=1), probabilities.argmax(axis=1)
    hit = (predicted == labels).astype(float)
    groups = generator.integers(0, 5, size=rows)
    by_group = [
        poisson_binomial(confidence[groups == g], int(hit[groups == g].sum())) for g in range(5)
    ]
    top = [
        adaptive_error(
            confidence[predicted == c, None], numpy.where(hit[predicted == c] == 1, 0, 1), bins
        )
        * (predicted == c).mean()
        for c in range(classes)
    ]
    return {
        "rows": rows,
        "classes": classes,
        "bins": bins,
        "probabilities": probabilities.ravel(),
        "labels": labels,
        "groups": groups,
        "adaptive": adaptive_error(probabilities, labels, bins),
        "top_label": sum(top),
        "smooth": smooth_error(confidence, hit),
        "smooth_of_relplot": relplot.smECE(confidence, hit),
        "subgroup_p_values": by_group,
    }


def with_known(probabilities):
    """A fitted classifier whose probabilities are its inputs."""

    class Known(sklearn.base.ClassifierMixin, sklearn.base.BaseEstimator):
        def fit(self, x, y):
            return self

        def predict_proba(self, x):
            return x

        def predict(self, x):
            return x.argmax(axis=1)

        def __sklearn_is_fitted__(self):
            return True

    known = Known()
    known.classes_ = numpy.arange(probabilities.shape[1])
    known.n_features_in_ = probabilities.shape[1]
    return known


def conformal_sets(generator):
    rows, new_rows, classes, level = 120, 20, 6, 0.85
    probabilities = generator.dirichlet(numpy.full(classes, 0.5), size=rows + new_rows)
    probabilities = 0.98 * probabilities + 0.02 / classes
    labels = numpy.array([generator.choice(classes, p=p) for p in probabilities])
    lac = classification.SplitConformalClassifier(
        with_known(probabilities), confidence_level=level, conformity_score="lac", prefit=True
    )
    lac.conformalize(probabilities[:rows], labels[:rows])
    _, sets = lac.predict_set(probabilities[rows:])

    # MAPIE randomises its calibration scores, so only its parts before that can be compared.
    penalty, free_classes = 0.1, 2
    known, new = probabilities[:rows], probabilities[rows:]
    mass, rank = RAPSConformityScore.get_true_label_cumsum_proba(
        labels[:rows], known, numpy.arange(classes)
    )
    scores = RAPSConformityScore._regularize_conformity_score(
        numpy.array([free_classes]), numpy.array([penalty]), mass, rank
    )
    threshold = conformal_threshold(scores.ravel(), level)
    ranks = (new[:, None, :] >= new[:, :, None]).sum(axis=2)
    above = (new[:, None, :] * (new[:, None, :] >= new[:, :, None])).sum(axis=2)
    held = above + penalty * numpy.maximum(0, ranks - free_classes) <= threshold
    return {
        "classes": classes,
        "level": level,
        "known": known.ravel(),
        "labels": labels[:rows],
        "penalty": penalty,
        "free_classes": free_classes,
        "threshold": threshold,
        "new": new.ravel(),
        "lac": [numpy.flatnonzero(row) for row in sets[:, :, 0]],
        "raps": [numpy.flatnonzero(row) for row in held],
    }


def conformal_intervals(generator):
    """CV+ with linear models."""
    rows, new_rows, level, folds = 80, 12, 0.8, 5
    x = generator.uniform(-2.0, 2.0, size=(rows + new_rows, 1))
    y = x[:, 0] ** 2 + generator.normal(0.0, 0.3 + 0.3 * numpy.abs(x[:, 0]))
    split = model_selection.KFold(folds)
    cross = conformal_regression.CrossConformalRegressor(
        linear_model.LinearRegression(), confidence_level=level, method="plus", cv=split
    )
    _, around = cross.fit_conformalize(x[:rows], y[:rows]).predict_interval(x[rows:])
    out_of_fold, fold_of_row, predictions = numpy.zeros(rows), numpy.zeros(rows, int), []
    for fold, (fitted, left_out) in enumerate(split.split(x[:rows])):
        line = linear_model.LinearRegression().fit(x[fitted], y[fitted])
        out_of_fold[left_out], fold_of_row[left_out] = line.predict(x[left_out]), fold
        predictions.append(line.predict(x[rows:]))
    return {
        "level": level,
        "targets": y[:rows],
        "out_of_fold": out_of_fold,
        "fold_of_row": fold_of_row,
        "predictions": numpy.concatenate(predictions),
        "cross": around[:, :, 0].T,
    }


def distributions(generator):
    """Scores of intervals and several targets, and tests of transforms."""
    rows, draws, columns, level = 30, 8, 3, 0.8
    lower = generator.normal(size=rows)
    upper = lower + generator.gamma(2.0, 0.7, size=rows)
    targets = generator.normal(0.5, 1.5, size=rows)
    sampled = generator.normal(size=(draws, rows, columns))
    truth = generator.normal(size=(rows, columns))
    near = numpy.linalg.norm(sampled - truth, axis=2).mean(axis=0)
    apart = numpy.linalg.norm(sampled[:, None] - sampled[None], axis=3).mean(axis=(0, 1))

    def variation(x):
        return numpy.sqrt(numpy.abs(x[..., :, None] - x[..., None, :]))

    gaps = (variation(truth) - variation(sampled).mean(axis=0)) ** 2
    transforms = [generator.beta(1.0, b, size=n) for n, b in [(5, 1), (60, 1.3), (140, 1), (900, 1.1)]]
    return {
        "draws": draws,
        "columns": columns,
        "level": level,
        "lower": lower,
        "upper": upper,
        "targets": targets,
        "winkler": mapie_regression.regression_mwi_score(
            targets, numpy.stack([lower, upper], axis=1)[:, :, None], level
        ),
        "sampled": sampled.ravel(),
        "truth": truth.ravel(),
        "energy": near - 0.5 * apart,
        "variogram": gaps.sum(axis=(1, 2)) / 2,
        "transforms": transforms,
        "kolmogorov_smirnov": [
            [*stats.kstest(u, "uniform", method="exact")] for u in transforms
        ],
    }


def selective_regression(generator):
    """AUSE, by sorting."""
    rows = 60
    uncertainty = generator.gamma(2.0, size=rows)
    errors = uncertainty * numpy.abs(generator.normal(size=rows))

    def curve(scores, values):
        return numpy.cumsum(values[numpy.argsort(scores)]) / numpy.arange(1, len(values) + 1)

    absolute = curve(uncertainty, errors) - curve(errors, errors)
    square = numpy.sqrt(curve(uncertainty, errors**2)) - numpy.sqrt(curve(errors, errors**2))
    return {
        "uncertainty": uncertainty,
        "errors": errors,
        "ause": absolute.mean() / errors.mean(),
        "root_ause": square.mean() / numpy.sqrt((errors**2).mean()),
    }


def out_of_distribution(generator):
    rows, new_rows, columns, classes, neighbour = 50, 9, 4, 3, 5
    mix = generator.normal(size=(columns, columns))
    labels = numpy.concatenate([numpy.arange(classes), generator.integers(0, classes, rows - classes)])
    centres = generator.normal(0.0, 3.0, size=(classes, columns))
    features = centres[labels] + generator.normal(size=(rows, columns)) @ mix
    new = generator.normal(0.0, 3.0, size=(new_rows, columns))
    means = numpy.array([features[labels == c].mean(axis=0) for c in range(classes)])
    precision = numpy.linalg.inv(covariance.EmpiricalCovariance(assume_centered=True)
        .fit(features - means[labels]).covariance_ + 0.1 * numpy.eye(columns))
    squared = [[spatial.distance.mahalanobis(x, m, precision) ** 2 for m in means] for x in new]
    nearest = neighbors.NearestNeighbors(n_neighbors=neighbour).fit(preprocessing.normalize(features))
    distances, _ = nearest.kneighbors(preprocessing.normalize(new))
    logits = generator.normal(0.0, 5.0, size=(new_rows, classes))
    return {
        "columns": columns,
        "neighbour": neighbour,
        "ridge": 0.1,
        "features": features.ravel(),
        "labels": labels,
        "new": new.ravel(),
        "mahalanobis": numpy.min(squared, axis=1),
        "nearest": distances[:, -1],
        "logits": logits.ravel(),
        "energy": -special.logsumexp(logits, axis=1),
        "max_logit": -logits.max(axis=1),
    }


def groups(generator):
    """Conformal prediction by class and by group of rows, and the coverage of groups."""
    rows, new_rows, classes, level = 150, 24, 3, 0.8
    probabilities = generator.dirichlet(numpy.full(classes, 0.7), size=rows + new_rows)
    probabilities = 0.97 * probabilities + 0.03 / classes
    labels = numpy.array([generator.choice(classes, p=p) for p in probabilities])
    wards = generator.integers(0, 2, size=rows + new_rows)
    known, new = probabilities[:rows], probabilities[rows:]

    def sets(chosen, of):
        lac = classification.SplitConformalClassifier(
            with_known(probabilities), confidence_level=level, conformity_score="lac", prefit=True
        )
        lac.conformalize(known[chosen], labels[:rows][chosen])
        return lac.predict_set(of)[1][:, :, 0]

    by_class = numpy.stack(
        [sets(labels[:rows] == c, new)[:, c] for c in range(classes)], axis=1
    )
    by_ward = numpy.zeros((new_rows, classes), bool)
    for ward in range(2):
        inside = wards[rows:] == ward
        by_ward[inside] = sets(wards[:rows] == ward, new[inside])
    together = sets(numpy.ones(rows, bool), new)
    hits = together[numpy.arange(new_rows), labels[rows:]]
    sizes = together.sum(axis=1)
    counted = [(int(hits[sizes == s].sum()), int((sizes == s).sum())) for s in numpy.unique(sizes)]
    p_values = [stats.binomtest(k, n, level, alternative="less").pvalue for k, n in counted]
    limits = [stats.binomtest(k, n).proportion_ci(0.95, "exact") for k, n in counted]
    of_sizes = [
        mapie_classification.classification_coverage_score(
            labels[rows:][sizes == s], together[sizes == s][:, :, None]
        )
        for s in numpy.unique(sizes)
    ]
    return {
        "classes": classes,
        "level": level,
        "known": known.ravel(),
        "labels": labels,
        "wards": wards,
        "new": new.ravel(),
        "by_class": [numpy.flatnonzero(row) for row in by_class],
        "by_ward": [numpy.flatnonzero(row) for row in by_ward],
        # The smallest coverage of sets of one size.
        "size_stratified_coverage": min(float(numpy.ravel(found)[0]) for found in of_sizes),
        "p_values": p_values,
        "adjusted": multitest.multipletests(p_values, method="holm")[1],
        "limits": [[limit.low, limit.high] for limit in limits],
    }


def counts(generator):
    draws, rows, level = 5, 30, 0.8
    rates = generator.gamma(2.0, 3.0, size=rows) * generator.gamma(20.0, 0.05, size=(draws, rows))
    found = generator.poisson(rates.mean(axis=0) * generator.gamma(4.0, 0.25, size=rows))

    def cumulative(x):
        return stats.poisson.cdf(x, rates).mean(axis=0)

    support = numpy.arange(200)[:, None, None]
    table = stats.poisson.cdf(support, rates[None]).mean(axis=1)
    quantiles = {p: (table < p).sum(axis=0) for p in [0.1, 0.5, 0.9]}
    return {
        "draws": draws,
        "rates": rates.ravel(),
        "counts": found.astype(float),
        "log_probabilities": numpy.log(stats.poisson.pmf(found, rates).mean(axis=0)),
        "mean_deviance": metrics.mean_poisson_deviance(found, rates.mean(axis=0)),
        "below": cumulative(found - 1),
        "up_to": cumulative(found),
        "quantiles": [quantiles[p].astype(float) for p in [0.1, 0.5, 0.9]],
    }


def recalibrated_draws(generator):
    """Maps of the draws, by bounded minimisation."""
    draws, rows, classes = 4, 90, 3
    logits = generator.normal(0.0, 1.5, size=(rows, classes))
    labels = numpy.array([generator.choice(classes, p=special.softmax(z)) for z in logits])
    tables = special.softmax(2.2 * logits + generator.normal(0.0, 0.8, (draws, rows, classes)), axis=2)

    def class_cost(u):
        scaled = special.softmax(numpy.log(tables) / math.exp(u), axis=2).mean(axis=0)
        return -numpy.log(scaled[numpy.arange(rows), labels]).mean()

    means = generator.normal(size=(draws, rows))
    deviations = generator.gamma(4.0, 0.1, size=(draws, rows))
    targets = means.mean(axis=0) + 1.7 * generator.standard_t(6, size=rows)
    centre = means.mean(axis=0)

    def number_cost(u):
        moved = centre + math.exp(u) * (means - centre)
        logs = stats.norm.logpdf(targets, moved, math.exp(u) * deviations)
        return -(special.logsumexp(logs, axis=0) - math.log(draws)).mean()

    def lowest(cost):
        grid = numpy.linspace(-3.0, 3.0, 61)
        best = grid[numpy.argmin([cost(u) for u in grid])]
        bounds = (best - 0.1, best + 0.1)
        return optimize.minimize_scalar(cost, bounds=bounds, options={"xatol": 1e-12}).x

    return {
        "draws": draws,
        "classes": classes,
        "probabilities": tables.ravel(),
        "labels": labels,
        "temperature": math.exp(lowest(class_cost)),
        "means": means.ravel(),
        "precisions": (deviations**-2.0).ravel(),
        "targets": targets,
        "variance": math.exp(2.0 * lowest(number_cost)),
    }


def rankings(generator):
    """Curves, intersections over union, several targets, and the parts of a disagreement."""
    rows, classes, draws, columns = 50, 4, 6, 3
    positive = generator.integers(0, 2, size=rows)
    scores = numpy.round(generator.normal(1.0 * positive), 1)
    precision, recall, _ = metrics.precision_recall_curve(positive, scores)
    labels = generator.integers(0, classes - 1, size=rows)
    predicted = generator.integers(0, classes - 1, size=rows)
    means = generator.normal(size=(draws, rows, columns))
    targets = generator.normal(size=(rows, columns))
    joint = stats.norm.logpdf(targets, means, 0.5).sum(axis=2)
    members = numpy.array([0, 0, 0, 1, 1, 2])
    tables = generator.dirichlet(numpy.ones(classes), size=(draws, rows))
    averages = [tables[members == m].mean(axis=0) for m in members]
    between = stats.entropy(numpy.array(averages), tables.mean(axis=0)[None], axis=2).mean(axis=0)
    within = stats.entropy(tables, numpy.array(averages), axis=2).mean(axis=0)
    return {
        "positive": positive,
        "scores": scores,
        # By increasing recall, without the point at recall 0.
        "precision": precision[::-1][1:],
        "recall": recall[::-1][1:],
        "classes": classes,
        "labels": labels,
        "predicted": predicted,
        # Without the class that never occurs.
        "mean_intersection_over_union": metrics.jaccard_score(labels, predicted, average="macro"),
        "draws": draws,
        "columns": columns,
        "means": means.ravel(),
        "targets": targets.ravel(),
        "joint": special.logsumexp(joint, axis=0) - math.log(draws),
        "members": members,
        "tables": tables.ravel(),
        "within": within,
        "between": between,
    }


def main():
    warnings.simplefilter("error", RuntimeWarning)
    # The number seeds the generator of the section, so that no section changes another.
    sections = {
        0: calibration,
        2: conformal_sets,
        3: conformal_intervals,
        5: distributions,
        6: selective_regression,
        7: out_of_distribution,
        8: groups,
        9: counts,
        10: recalibrated_draws,
        11: rankings,
    }
    values = {
        "source": {
            "script": "xtask/golden/peers.py",
            "seed": SEED,
            "mapie": mapie.__version__,
            "numpy": numpy.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
            "statsmodels": statsmodels.__version__,
        },
    }
    for number, section in sections.items():
        values[section.__name__] = section(numpy.random.default_rng([SEED, number]))
    TARGET.write_text(text(plain(values)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

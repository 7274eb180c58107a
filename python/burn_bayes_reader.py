"""Reads the folder of a finished fit of `burn-bayes`, and predicts with NumPy alone.

    run = burn_bayes_reader.load("run")
    predictions = run.predict("new.csv")  # or a list of dicts, or a dict of columns
    predictions["mean"], predictions["std"], predictions["epistemic_std"], predictions["q0.05"]

The predictions are arrays with the names of the columns of `burn-bayes predict`. With the samples of chains they equal
the program's up to rounding, with the draws of a Gaussian up to the error of the draws. Decisions and conformal sets
need the program. As the program does, `predict` warns of values that no training row is near to. Python 3.9 or later;
nothing is written, and nothing that the files contain is executed.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import math
import re
import warnings
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from numbers import Real
from pathlib import Path
from statistics import NormalDist
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

try:
    import tomllib
except ImportError:  # before Python 3.11: that of pip
    from pip._vendor import tomli as tomllib  # type: ignore

Array = np.ndarray
Rows = Union[str, Path, Iterable[Mapping[str, Any]], Mapping[str, Sequence[Any]]]

RUN_FORMAT, PREPARATION_FORMAT, POSTERIOR_FORMAT = 5, 6, "1"
RESTORE = "restore the file that the fit wrote, or fit again"
MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null")
MOST_RATE = 100_000  # of counts with quantiles
SEPARATORS = " \u00a0\u202f\u2009'\u2019"


class ReadError(ValueError):
    """A file or a row that cannot be used: where, why, and what to do."""


def load(folder: Union[str, Path], verify: bool = True) -> Run:
    """The finished run in a folder. `verify` compares all files with their checksums, 10 MB in one or two seconds."""
    folder = Path(folder)
    path = folder / "model.toml"
    if not path.is_file():
        cure = "name a folder of `burn-bayes fit --out`, or continue the fit with `--resume`"
        raise ReadError(f"{folder}: there is no finished run in it (no model.toml); {cure}")
    first, _, body = path.read_bytes().partition(b"\n")
    if not first.startswith(b"checksum") or verify and first.decode() != f'checksum = "{_checksum(body)}"':
        raise ReadError(f"{path}: it is damaged, or of another version of the program; {RESTORE}")
    model = _toml(path, body, RUN_FORMAT)

    def content(name: str) -> bytes:
        file = folder / name
        if not file.is_file():
            raise ReadError(f"{file}: it is missing; {RESTORE}")
        found = file.read_bytes()
        if verify and model["checksums"].get(name) != _checksum(found):
            raise ReadError(f"{file}: it was changed: its checksum is not the one in model.toml; {RESTORE}")
        return found

    settings = _toml(folder / "config.toml", content("config.toml"))
    prepared = _toml(folder / "preprocessor.toml", content("preprocessor.toml"), PREPARATION_FORMAT)
    run = Run(folder, settings, Preparation(prepared, settings["data"]), model)
    for index, member in enumerate(model.get("members", []), 1):
        path = folder / f"member-{index}" / "model.toml"
        if verify and path.is_file() and _checksum(path.read_bytes()) != member["checksum"]:
            raise ReadError(f"{path}: it is not that of the member of this ensemble; {RESTORE}")
        run.posteriors += load(path.parent, verify).posteriors
    if not run.posteriors:
        name = "posterior.safetensors" if "posterior.safetensors" in model["checksums"] else "weights.bpk"
        precisions, preparation = np.atleast_1d(model["noise_precision"]), run.preparation
        network = Network(settings["fit"], preparation.targets, precisions, preparation.has_exposure)
        run.posteriors.append((network, _posterior(folder / name, content(name))))
    if "diverged" in model:
        warnings.warn(f"{folder}: the fit diverged: {model['diverged']}")
    elif model.get("verdict") == "do-not-use":
        warnings.warn(f"{folder}: the verdict on the fit is `do not use`; its report.html has the reasons")
    return run


def read_posterior(path: Union[str, Path]) -> Posterior:
    """The posterior in a file that the library or the program saved, in safetensors or burnpack."""
    return _posterior(Path(path), Path(path).read_bytes())


@dataclass(repr=False)
class Posterior:
    """A distribution over D weights. `covariance`: N(mean, FᵀF + diag d); `precision`: N(mean, (FᵀF + diag d)⁻¹);
    `samples`: vectors of equal probability; `point`: the mean alone. Arrays that a form does not have are empty."""

    form: str
    layout: Dict[str, Tuple[Tuple[int, ...], int]]  # the shape and the offset of every parameter
    mean: Array  # [D]
    factors: Array  # F, [K, D]
    diagonal: Array  # d, [D]
    samples: Array  # [S, D]

    def __getitem__(self, name: str) -> Dict[str, Array]:
        """The arrays of a parameter: its mean, and factors and diagonal, or samples."""
        arrays = {key: getattr(self, key) for key in ("mean", "factors", "diagonal", "samples")}
        return {key: self.by_name(array)[name] for key, array in arrays.items() if array.size}

    def by_name(self, vectors: Array) -> Dict[str, Array]:
        """Vectors of weights, [..., D], as parameters; the weight of a linear layer is [inputs, outputs]."""
        flat = {name: vectors[..., start : start + math.prod(shape)] for name, (shape, start) in self.layout.items()}
        return {name: flat[name].reshape(vectors.shape[:-1] + shape) for name, (shape, _) in self.layout.items()}

    def draw(self, count: Optional[int] = None, seed: int = 0) -> Array:
        """Draws of the weights, [count, D]: by default all samples, a point, or 100 draws of a Gaussian."""
        random = np.random.default_rng(seed)
        if self.form == "point":
            return self.mean[np.newaxis]
        if self.form == "samples":
            count = count or len(self.samples)
            rounds = [random.permutation(len(self.samples)) for _ in range(0, count, len(self.samples))]
            return self.samples[np.concatenate(rounds)[:count]]
        pairs = -(-(count or 100) // 2)
        noise, latent = (random.standard_normal((pairs, size)) for size in (self.mean.size, len(self.factors)))
        if self.form == "covariance":
            found = latent @ self.factors + np.sqrt(self.diagonal) * noise
        else:  # With V = F/√d and M = I + VVᵀ, ε − VᵀM⁻¹(Vε + h) has the covariance (I + VᵀV)⁻¹.
            scaled = self.factors / np.sqrt(self.diagonal)
            inner = np.eye(len(scaled)) + scaled @ scaled.T
            found = (noise - np.linalg.solve(inner, scaled @ noise.T + latent.T).T @ scaled) / np.sqrt(self.diagonal)
        return self.mean + np.concatenate([found, -found])[: count or 100]


@dataclass(repr=False)
class Network:
    """A multilayer perceptron, or a linear model, and the distributions of the targets that its outputs stand for."""

    settings: Dict[str, Any]  # of the fit
    targets: List[Dict[str, Any]]
    noise_precisions: Array  # of scaled targets, or the largest that the network can predict
    has_exposure: bool  # whether the last input is the logarithm of an exposure, which is added to the outputs

    def likelihood(self) -> str:
        """The name of the likelihood in the settings, or the default."""
        is_learned = self.settings["method"] in ("mclmc", "hmc") and self.settings["noise_precision"] == "learned"
        defaults = {
            "regression": "heteroscedastic" if is_learned else "gaussian",
            "counts": "poisson" if self.settings["method"] == "laplace" else "negative-binomial",
            "classification": "bernoulli" if len(self.targets) > 1 else "categorical",
        }
        return self.settings.get("likelihood", defaults[self.targets[0]["code"]["task"]])

    def outputs(self, inputs: Array, weights: Dict[str, Array]) -> Array:
        """The outputs for inputs [rows, features] and draws of the weights, [draws, rows, outputs]."""
        target, layer = self.targets[0]["code"], 0
        inputs, exposures = (inputs[:, :-1], inputs[:, -1:]) if self.has_exposure else (inputs, 0.0)
        values = inputs[np.newaxis]
        default = "silu" if self.settings["method"] in ("mclmc", "hmc") else "relu"
        activations: Dict[str, Callable[[Array], Array]] = {"relu": _relu, "silu": _silu, "tanh": np.tanh}
        activation = activations[self.settings.get("activation", default)]
        while f"layers.{layer}.weight" in weights:
            values = (activation(values) if layer else values) @ weights[f"layers.{layer}.weight"]
            values = values + weights.get(f"layers.{layer}.bias", np.zeros((1, 1)))[:, np.newaxis]
            layer += 1
        if target["task"] == "counts":
            values = values + math.log(target["mean"]) + exposures
        if "noise" in weights:  # the logarithms of the variances of all rows, or of their dispersions
            noise = np.repeat(weights["noise"][:, np.newaxis], len(inputs), axis=1)
            values = np.concatenate([values, noise], axis=2)
        width = (2 if self.likelihood() == "mixture" else 1) * len(self.targets)
        if target["task"] != "regression" or values.shape[2] == width:
            return values
        # Variances have a floor, and those of logarithms a ceiling as well.
        means, variances, logits = np.split(values, [width, 2 * width], axis=2)
        floor = -np.log(self.noise_precisions)
        if not target["scale"].get("is_logarithmic"):
            return np.concatenate([means, variances + _softplus(floor - variances), logits], axis=2)
        variances = variances + _softplus(floor - 2.0 * target["scale"]["spread"] * means - variances)
        return np.concatenate([means, variances - _softplus(variances - math.log(4.0)), logits], axis=2)

    def distributions(self, inputs: Array, posterior: Posterior, draws: Array) -> List[Tuple[Array, ...]]:
        """The distribution of every target under every draw, in arrays [draws, rows, …]: probabilities; rates and
        dispersions; or means, deviations and weights of Gaussians."""
        likelihood, targets = self.likelihood(), self.targets
        if self.settings["method"] == "laplace":
            # f(θ*) + J (θ − θ*): the derivative in a direction is the imaginary part at a tiny imaginary step.
            step = 1e-100
            outputs = self.outputs(inputs, posterior.by_name(posterior.mean + 1j * step * (draws - posterior.mean)))
            outputs = outputs.real + outputs.imag / step
        else:
            outputs = self.outputs(inputs, posterior.by_name(draws))
        if not np.isfinite(outputs).all():
            raise ReadError("a prediction is not finite; look for values far from those of the training rows")
        if likelihood == "categorical":
            return [(_softmax(outputs),)]
        if likelihood == "ordinal":  # output k is the logit of a class above k, given one that is not below k
            ones = np.ones(outputs.shape[:2] + (1,))
            reached = np.concatenate([ones, np.cumprod(_sigmoid(outputs), axis=2)], axis=2)
            return [(reached * np.concatenate([_sigmoid(-outputs), ones], axis=2),)]
        if likelihood == "bernoulli":
            return [(_sigmoid(np.stack([-logit, logit], axis=2)),) for logit in np.moveaxis(outputs, 2, 0)]
        if likelihood in ("poisson", "negative-binomial"):
            rates = np.minimum(np.exp(outputs[..., 0]), 1e15)
            return [(rates, np.exp(outputs[..., 1]) if outputs.shape[2] > 1 else np.zeros_like(rates))]
        found: List[Tuple[Array, ...]] = []
        count = 2 if likelihood == "mixture" else 1
        for place, target in enumerate(targets):
            scale, first = target["code"]["scale"], count * (len(targets) + place)
            means, logarithms = outputs[..., count * place : count * (place + 1)], outputs[..., first : first + count]
            if not logarithms.shape[2]:
                logarithms = np.full_like(means, -math.log(self.noise_precisions[place]))
            logits = outputs[..., 2 * count * len(targets) :]
            shares = _softmax(np.concatenate([logits, np.zeros_like(means[..., :1])], axis=2))
            kept = (scale["centre"], scale["spread"]) == (0.0, 1.0)
            smallest, largest = (1e-15, 1e15) if kept else (1e-7 * scale["spread"], 10.0 * scale["spread"])
            deviations = np.clip(scale["spread"] * np.exp(0.5 * logarithms), smallest, largest)
            means = scale["centre"] + scale["spread"] * means
            if scale.get("is_logarithmic"):  # which networks extrapolate without an end
                means, deviations = np.minimum(means, 200.0), np.minimum(deviations, 4.0)
            found.append((means, deviations, shares))
        return found


@dataclass(repr=False)
class Run:
    """A finished fit: its settings, how it prepares columns, and its network and posterior, or those of all members."""

    folder: Path
    settings: Dict[str, Any]
    preparation: Preparation
    model: Dict[str, Any]  # model.toml: what was learned besides the weights
    posteriors: List[Tuple[Network, Posterior]] = field(default_factory=list)

    @property
    def posterior(self) -> Posterior:
        """The posterior of a run that is not an ensemble."""
        if len(self.posteriors) > 1:
            raise ReadError(f"{self.folder}: it is an ensemble; use the posteriors of its members, `run.posteriors`")
        return self.posteriors[0][1]

    def draw_weights(self, count: Optional[int] = None, seed: int = 0) -> Dict[str, Array]:
        """Draws of every parameter, [count, *shape]; those of an ensemble are shared by its members, in their order."""
        drawn = [posterior.by_name(draws) for _, posterior, draws in self._draws(count, seed)]
        return {name: np.concatenate([weights[name] for weights in drawn]) for name in drawn[0]}

    def predict(
        self, rows: Rows, draws: Optional[int] = None, seed: int = 0, quantiles: Sequence[float] = (0.05, 0.5, 0.95)
    ) -> Dict[str, Array]:
        """The columns of `burn-bayes predict` for rows: the path of a CSV file, dicts of cells, or a dict of columns.
        Cells are text as in a file, or numbers and dates; `None` and NaN are missing. `draws` are those of
        `Posterior.draw`; members of an ensemble share them, and by default each has as many as a single posterior."""
        inputs, drawn = self.preparation.inputs(rows), self._draws(draws, seed)
        widest = max(max(shape) for _, posterior, _ in drawn for shape, _ in posterior.layout.values())
        step, parts = max(1, 2**23 // (widest * sum(len(own) for *_, own in drawn))), []
        for start in range(0, len(inputs), step):
            some = inputs[start : start + step]
            members = [network.distributions(some, posterior, own) for network, posterior, own in drawn]
            joined = [[np.concatenate(arrays) for arrays in zip(*target)] for target in zip(*members)]
            parts.append(self._columns(joined, quantiles))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _draws(self, count: Optional[int], seed: int) -> List[Tuple[Network, Posterior, Array]]:
        """Equally many draws of each posterior."""
        if count is None:
            count = len(self.posteriors) * min(len(posterior.samples) for _, posterior in self.posteriors)
        share = -(-count // len(self.posteriors)) or None
        places = enumerate(self.posteriors)
        return [(network, posterior, posterior.draw(share, seed + index)) for index, (network, posterior) in places]

    def _columns(self, targets: List[List[Array]], levels: Sequence[float]) -> Dict[str, Array]:
        columns: Dict[str, Array] = {}
        members, recalibration = len(self.posteriors), self.model.get("recalibration", {})
        for target, arrays in zip(self.preparation.targets, targets):
            code = target["code"]
            if code["task"] == "classification":
                found = _class_columns(arrays[0], code["classes"], members, recalibration.get("temperature", 1.0))
            elif code["task"] == "counts":
                found = _count_columns(arrays[0], arrays[1], members, levels)
            else:
                factor, is_log = recalibration.get("deviation_factor", 1.0), code["scale"].get("is_logarithmic", False)
                found = _number_columns(arrays, members, levels, factor, is_log)
            prefix = f"{target['name']}_" if len(targets) > 1 else ""
            columns.update({prefix + name: values for name, values in found.items()})
        return columns


def _moments(means: Array, variances: Array, members: int) -> Dict[str, Array]:
    """Mean and deviations from the moments under every draw, [draws, rows]."""
    between = means.var(axis=0)
    columns = {"mean": means.mean(axis=0), "std": np.sqrt(variances.mean(axis=0) + between)}
    columns["epistemic_std"] = np.sqrt(between)
    if members > 1:
        of_members = np.stack(np.split(means, members))
        columns["epistemic_std_within"] = np.sqrt(of_members.var(axis=1).mean(axis=0))
        columns["epistemic_std_between"] = of_members.mean(axis=1).std(axis=0)
    return columns


def _number_columns(
    gaussians: List[Array], members: int, levels: Sequence[float], factor: float, is_log: bool
) -> Dict[str, Array]:
    """Of mixtures of Gaussians, or of their exponentials, with deviations times a factor."""
    means, deviations, shares = gaussians
    centre = (shares * means).sum(axis=2, keepdims=True).mean(axis=0)
    means, deviations = centre + factor * (means - centre), factor * deviations
    quantiles = {f"q{level}": _gaussian_quantiles(means, deviations, shares, level) for level in levels}
    if is_log:
        quantiles = {name: np.exp(values) for name, values in quantiles.items()}
        variances = deviations**2
        means = np.exp(means + 0.5 * variances)
        deviations = means * np.sqrt(np.expm1(variances))
    of_draws = (shares * means).sum(axis=2)
    variances = (shares * (deviations**2 + (means - of_draws[..., np.newaxis]) ** 2)).sum(axis=2)
    return {**_moments(of_draws, variances, members), **quantiles}


def _gaussian_quantiles(means: Array, deviations: Array, shares: Array, level: float) -> Array:
    """By Newton's method between the quantiles of the Gaussians."""
    places = means + NormalDist().inv_cdf(level) * deviations
    low, high, found = places.min(axis=(0, 2)), places.max(axis=(0, 2)), (shares * places).sum(axis=2).mean(axis=0)
    for _ in range(100):
        scaled = (found[:, np.newaxis] - means) / deviations
        below = 0.5 * np.frompyfunc(math.erfc, 1, 1)(-scaled / math.sqrt(2.0)).astype(float)
        excess = (shares * below).sum(axis=2).mean(axis=0) - level
        slope = (shares * np.exp(-0.5 * scaled**2) / deviations).sum(axis=2).mean(axis=0) / math.sqrt(2.0 * math.pi)
        low, high = np.where(excess < 0.0, found, low), np.where(excess < 0.0, high, found)
        newton = found - excess / np.maximum(slope, 1e-300)
        before, found = found, np.where((low <= newton) & (newton <= high), newton, 0.5 * (low + high))
        if np.all(np.abs(found - before) <= 1e-13 * np.abs(found)):
            break
    return found


def _count_columns(rates: Array, dispersions: Array, members: int, levels: Sequence[float]) -> Dict[str, Array]:
    """Of mixtures of counts with variances λ + α λ²; a quantile is the least count k with P(Y ≤ k) ≥ the level."""
    if len(levels) and rates.size and rates.max() > MOST_RATE:
        raise ReadError(f"quantiles of counts above {MOST_RATE} take too long here; use `burn-bayes predict`")
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(dispersions > 0.0, -np.log1p(dispersions * rates) / dispersions, -rates)  # ln P(Y = count)
        steps = np.log(rates) - np.log1p(dispersions * rates)
    found, count, below = np.full((len(levels), rates.shape[1]), np.nan), 0, np.exp(terms).mean(axis=0)
    limits = np.minimum(np.reshape(levels, (-1, 1)), 1.0 - 1e-12)
    while np.isnan(found).any() and count < 10 * MOST_RATE:
        found[np.isnan(found) & (below >= limits)] = count
        terms = terms + steps + np.log1p(count * dispersions) - math.log(count + 1)
        count, below = count + 1, below + np.exp(terms).mean(axis=0)
    if np.isnan(found).any():
        raise ReadError(f"a quantile of counts above {10 * MOST_RATE} takes too long here; use `burn-bayes predict`")
    quantiles = {f"q{level}": values for level, values in zip(levels, found)}
    return {**_moments(rates, rates + dispersions * rates**2, members), **quantiles}


def _class_columns(probabilities: Array, classes: List[str], members: int, temperature: float) -> Dict[str, Array]:
    powers = (probabilities / probabilities.max(axis=2, keepdims=True)) ** (1.0 / temperature)
    probabilities = powers / powers.sum(axis=2, keepdims=True)
    average = probabilities.mean(axis=0)
    entropy, expected = _entropy(average), _entropy(probabilities).mean(axis=0)
    votes = probabilities.argmax(axis=2)[..., np.newaxis] == np.arange(len(classes))
    columns = {f"p_{name}": average[:, place] for place, name in enumerate(classes)}
    columns["label"] = np.array(classes)[average.argmax(axis=1)]
    columns["entropy"], columns["least_confidence"] = entropy, 1.0 - average.max(axis=1)
    columns["mutual_information"] = np.maximum(entropy - expected, 0.0)
    columns["disagreement"] = probabilities.var(axis=0).sum(axis=1)
    columns["variation_ratio"] = 1.0 - votes.mean(axis=0).max(axis=1)
    if members > 1:
        of_members = _entropy(np.stack(np.split(probabilities, members)).mean(axis=1)).mean(axis=0)
        columns["mutual_information_within"] = np.maximum(of_members - expected, 0.0)
        columns["mutual_information_between"] = np.maximum(entropy - of_members, 0.0)
    return columns


class Preparation:
    """The transformation of columns to the inputs of the network, as the fit learned it."""

    def __init__(self, saved: Dict[str, Any], data: Dict[str, Any]) -> None:
        self.columns: List[Dict[str, Any]] = saved["features"]
        self.targets: List[Dict[str, Any]] = saved["target"] if isinstance(saved["target"], list) else [saved["target"]]
        self.refuses = [policy for policy in ("missing", "unseen") if saved[policy] == "refuse"]
        self.has_exposure = self.columns[-1]["code"]["kind"] == "exposure"
        self.data = data
        self.delimiter: Optional[str] = "\t" if data.get("delimiter") == "tab" else data.get("delimiter")

    def inputs(self, rows: Rows) -> Array:
        """The inputs of the network for rows, [rows, features]."""
        table, delimiter = self._table(rows)
        found = []  # the inputs of every column, of every row
        for column in self.columns:
            name = column["name"]
            if name not in table:
                raise ReadError(f"the rows have no column `{name}`, but {', '.join(map(str, table)) or 'none'}; add it")
            cells, far = [], []
            for row, cell in enumerate(table[name], 1):
                try:
                    values, finding = self._cell(column, cell.strip() if isinstance(cell, str) else cell, delimiter)
                except ValueError as problem:
                    raise ReadError(f"row {row}, column `{name}`: {problem}") from None
                cells.append(values)
                far += [f"row {row}, column `{name}`: {finding}: its prediction is a guess"] if finding else []
            if far:
                more = f", as are those of {len(far) - 1} more rows" if len(far) > 1 else ""
                warnings.warn(far[0] + more, stacklevel=3)
            found.append(cells)
        if not found[0]:
            raise ReadError("there are no rows to predict")
        inputs = np.concatenate([np.array(cells) for cells in found], axis=1)
        if not (np.abs(inputs) < np.finfo(np.float32).max).all():
            raise ReadError("a number of the rows is much larger than in training; correct it")
        return inputs

    def _cell(self, column: Dict[str, Any], cell: Any, delimiter: str) -> Tuple[List[float], str]:
        """The inputs from a cell, and why no training row is near to it; empty if one is."""
        code, finding = column["code"], ""
        is_missing = self._is_missing(cell, code["kind"] in ("number", "exposure"), delimiter)
        if is_missing and "missing" in self.refuses:
            raise ValueError("the value is missing; leave the row out")
        if is_missing and column.get("is_complete"):
            finding = "no value, and no training row lacks one"
        if code["kind"] == "number":
            of_column = code["numbers"]
            value = of_column["imputed"] if is_missing else self._number(cell, delimiter)
            finding = finding or _outside(value, of_column)
            found = [_scaled(value, of_column)]
        elif code["kind"] == "exposure":
            exposure = 0.0 if is_missing else self._number(cell, delimiter)
            if exposure <= 0.0:
                raise ValueError(f"`{cell}` is not an exposure, a number above 0; give the row its exposure")
            found = [math.log(exposure) - code["scale"]["centre"]]
        elif code["kind"] == "one_hot":
            known = code["levels"] + code["rare"]
            texts = [code["imputed"]] if is_missing else self._spellings(cell)
            text = next((text for text in texts if text in known), texts[0])
            if text not in known:
                if "unseen" in self.refuses:
                    raise ValueError(f"`{text}` is in no training row; the categories are {', '.join(code['levels'])}")
                finding = f"`{text if len(text) <= 40 else text[:40] + '…'}` is in no training row"
            is_set = not (is_missing and column["says_missing"])
            found = [float(is_set and level == text) for level in code["levels"]]
            if code["rare"]:
                found.append(float(is_set and text not in code["levels"]))
        elif code["kind"] == "date":
            moment = None if is_missing else _moment(cell, code["order"])
            if moment is not None:
                finding = _outside((moment - datetime(1970, 1, 1)) / timedelta(days=1), code["days"], f"`{cell}`")
            found = _date_inputs(code, moment)
        else:
            raise ValueError(f"the preparation `{code['kind']}` is unknown here; use `burn-bayes predict`")
        return found + [float(is_missing)] * column["says_missing"], finding

    def _is_missing(self, cell: Any, is_number: bool, delimiter: str) -> bool:
        """Whether a cell has no value; a number may be written in another way than in `--na-values`."""
        if cell is None or type(cell).__name__ == "NAType" or cell != cell or cell in MISSING:  # NAType: pandas.NA
            return True
        words, decimal = self.data["na_values"], self.data["decimal"]
        numbers = [_number(word, decimal, delimiter) for word in words if word[-1:].isdigit()] if is_number else []
        if cell in words or not numbers:
            return cell in words
        value = _number(cell, decimal, delimiter) if isinstance(cell, str) else cell
        return value is not None and value in numbers

    def _spellings(self, cell: Any) -> List[str]:
        """How a file may write a category, as the program tries them for the rows that it is given."""
        if isinstance(cell, (bool, np.bool_)):
            word = "true" if cell else "false"
            return [word, word.capitalize(), word.upper()]
        texts = [str(cell)]
        if isinstance(cell, Real) and float(cell).is_integer():
            texts += [str(int(cell)), f"{int(cell)}.0"]
        if isinstance(cell, Real) and self.data["decimal"] == ",":
            texts = [text.replace(".", ",") for text in texts]
        return texts

    def _number(self, cell: Any, delimiter: str) -> float:
        value = _number(cell, self.data["decimal"], delimiter) if isinstance(cell, str) else float(cell)
        if value is None or not math.isfinite(value):
            raise ValueError(f"`{cell}` is not a finite number; correct it, or leave it empty if it is missing")
        return value

    def _table(self, rows: Any) -> Tuple[Dict[str, List[Any]], str]:
        """The rows as columns, and the delimiter of their file."""
        if isinstance(rows, (str, Path)):
            return self._read_csv(Path(rows))
        if hasattr(rows, "keys"):
            return {name: list(rows[name]) for name in rows.keys()}, self.delimiter or ","
        rows = list(rows)
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: [row.get(name) for row in rows] for name in names}, self.delimiter or ","

    def _read_csv(self, path: Path) -> Tuple[Dict[str, List[Any]], str]:
        """The columns of a file of delimited text, perhaps compressed with gzip, and its delimiter."""
        limit = csv.field_size_limit(2**31 - 1)
        try:
            return self._parse_csv(path, path.read_bytes())
        except csv.Error as problem:
            raise ReadError(f"{path}: {problem}; look for a missing quote") from None
        finally:
            csv.field_size_limit(limit)

    def _parse_csv(self, path: Path, content: bytes) -> Tuple[Dict[str, List[Any]], str]:
        try:
            text = (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode("utf-8-sig")
        except ValueError:
            raise ReadError(f"{path}: it is not text in UTF-8; save the table as CSV in UTF-8") from None
        wanted = {column["name"] for column in self.columns}

        def split(delimiter: str, end: str = "") -> Iterator[List[str]]:
            for row in csv.reader(io.StringIO(text + end, newline=""), delimiter=delimiter):
                row = [cell for cell in row if cell] if delimiter == " " else row
                if row:
                    yield row

        def has_header(delimiter: str) -> bool:
            first = [cell.strip() for cell in next(split(delimiter), [])]
            has_numbers = any(_number(cell, mark, delimiter) is not None for cell in first for mark in ".,")
            return {"present": True, "absent": False}.get(self.data.get("header"), not has_numbers)

        def names(delimiter: str) -> List[str]:
            first = [cell.strip() if has_header(delimiter) else "" for cell in next(split(delimiter), [])]
            return [cell or f"column_{index}" for index, cell in enumerate(first)]

        # Without a given delimiter, that with which the file has the columns of the fit.
        candidates = [self.delimiter] if self.delimiter else sorted(set(",\t;| ") - {self.data["decimal"]})
        best = max(candidates, key=lambda delimiter: (wanted <= set(names(delimiter)), len(names(delimiter))))
        columns = names(best)
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            raise ReadError(f"{path}, column `{twice}`: the same name twice; rename one of the columns")
        # An open quote takes the row at the end into its cell.
        *rows, last = split(best, "\nend")
        rows = rows[has_header(best) :]
        if last != ["end"]:
            where = f"{path}, row {len(rows) + 1}"
            raise ReadError(f"{where}: an opening quote without a closing one; close it, or write it twice in quotes")
        for number, row in enumerate(rows, 1):
            if len(row) != len(columns):
                raise ReadError(f"{path}, row {number}: {len(row)} cells, not {len(columns)}; look for a missing quote")
        return {name: [row[index] for row in rows] for index, name in enumerate(columns)}, best


def _outside(value: float, of_column: Dict[str, Any], text: str = "") -> str:
    """Why a number is far outside of the range of the training rows; empty if it is not."""
    least, most = of_column["least"], of_column["most"]
    is_near = least - 0.1 * (most - least) <= value <= most + 0.1 * (most - least)
    shown = f", which have {least} to {most}" if not text else ""
    return "" if is_near else f"{text or value} is far outside of the training rows{shown}"


def _scaled(value: float, numbers: Dict[str, Any]) -> float:
    value = math.asinh(value / numbers["unit"]) if "unit" in numbers else value
    return (value - numbers["scale"]["centre"]) / numbers["scale"]["spread"]


def _date_inputs(code: Dict[str, Any], moment: Optional[datetime]) -> List[float]:
    """The scaled days since 1970, and the parts of the year, the week and the day."""
    parts = code["parts"]
    if moment is None:
        zeros = 2 * parts["season"] + 7 * parts["weekday"] + 2 * parts["time"]
        return [_scaled(code["days"]["imputed"], code["days"])] + [0.0] * zeros
    days = (moment - datetime(1970, 1, 1)) / timedelta(days=1)
    season = (moment.timetuple().tm_yday - 1) / datetime(moment.year, 12, 31).timetuple().tm_yday
    of_season, of_time = ([math.sin(math.tau * turn), math.cos(math.tau * turn)] for turn in (season, days % 1.0))
    weekday = [float(moment.weekday() == day) for day in range(7)]
    found = of_season * parts["season"] + weekday * parts["weekday"] + of_time * parts["time"]
    return [_scaled(days, code["days"])] + found


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)


def _moment(cell: Any, order: str) -> datetime:
    """A date such as 2024-03-01, 1.3.2024, 03/01/24 3:30 PM, 1 March 2024 or 2024-03, at midnight if it has no time; a time of
    day is one of 1970-01-01."""
    if isinstance(cell, time):
        return datetime.combine(date(1970, 1, 1), cell.replace(tzinfo=None))
    if isinstance(cell, date):
        return cell.replace(tzinfo=None) if isinstance(cell, datetime) else datetime.combine(cell, time())
    zone = r"(?:[ ]*(?:z|utc|gmt|[+-]\d{2}(?::?\d{2})?))?"
    clock = rf"(\d{{1,2}}):(\d{{2}})(?::(\d{{2}})(\.\d{{1,9}})?)?(?:\s*([ap])\.?m\.?|{zone})"
    is_time = order == "time_of_day"
    pattern = rf"(){clock}" if is_time else rf"(.*?)(?:[T ,]+{clock})?"
    found = re.fullmatch(pattern, str(cell), re.ASCII | re.IGNORECASE)
    try:
        if not found:
            raise ValueError
        day = (1970, 1, 1) if is_time else _numeric_day(found.group(1), order) or _named_day(found.group(1))
        hour, minute, second = (int(part or 0) for part in found.group(2, 3, 4))
        if found.group(6):
            hour = datetime.strptime(f"{hour} {found.group(6)}m", "%I %p").hour
        if day:
            moment = datetime(*day, hour, minute, second)
            return moment + timedelta(seconds=float(found.group(5) or 0))
    except ValueError:
        pass
    kind = "time of day" if is_time else f"date in the order {order.replace('_', '-')}"
    raise ValueError(f"`{cell}` is not a {kind}; correct it")


def _numeric_day(text: str, order: str) -> Optional[Tuple[int, int, int]]:
    """Year, month and day of numbers with one separator."""
    found = re.fullmatch(r"(\d{1,4})([-./])(\d{1,4})(?:\2(\d{1,4}))?", text, re.ASCII)
    if not found:
        return None
    first, separator, second, third = found.groups()
    names = order.split("_")
    if third is None:
        names = [name for name in names if name != "day"] if order != "day_month_year" and separator != "." else []
    numbers = dict(zip(names, (first, second, third)))
    year = numbers.get("year", "")
    if third is None and not (len(year) == 4 and 1800 <= int(year) < 2200):
        return None
    if len(year) == 4 or len(year) == 2 and separator == "/" and names[0] != "year":
        return _full_year(year), int(numbers["month"]), int(numbers.get("day", 1))
    return None


def _named_day(text: str) -> Optional[Tuple[int, int, int]]:
    """Year, month and day with the name of the month, perhaps after that of the weekday."""
    parts = [part for part in re.split("[-./ ,]", text.lower()) if part]

    def place(names: Sequence[str], part: str) -> Optional[int]:
        return next((index for index, name in enumerate(names) if len(part) >= 3 and name.startswith(part)), None)

    if parts and place(_WEEKDAYS, parts[0]) is not None:
        parts = parts[1:]
    months = [place(_MONTHS, part) for part in parts]
    numbers = [part for part, month in zip(parts, months) if month is None]
    if not all(re.fullmatch(r"\d{1,4}", number, re.ASCII) for number in numbers):
        return None
    named = [month for month in months if month is not None]
    where = [index for index, month in enumerate(months) if month is not None]
    if len(parts) == 3 and (where == [1] or where == [0] and len(numbers[1]) == 4):
        return _full_year(numbers[1]), named[0] + 1, int(numbers[0])
    if len(parts) == 2 and where == [0] and (len(numbers[0]) == 4 or "-" in text):
        return _full_year(numbers[0]), named[0] + 1, 1
    return None


def _full_year(text: str) -> int:
    """The years of two digits are those from 1969 to 2068."""
    if len(text) not in (2, 4):
        raise ValueError
    year = int(text)
    return year if len(text) == 4 else year + (2000 if year < 69 else 1900)


def _number(cell: str, decimal: str, delimiter: str) -> Optional[float]:
    """A number as people write it: with a currency, a per cent sign or separators of thousands. A single point or comma
    may be that of decimals, unless it is in an amount of money or the delimiter of the file."""
    other = "." if decimal == "," else ","
    plain = rf"([0-9]+[{decimal}]?[0-9]*|[{decimal}][0-9]+)([eE][+-]?[0-9]+)?"
    if re.fullmatch(rf"[+-]?{plain}", cell):
        return float(cell.replace(decimal, "."))
    bare = cell[1:] if cell.startswith("-") else cell
    amount = bare.lstrip("$€£¥₹₩").rstrip("$€£¥₹₩").strip()
    number = amount[:-1].rstrip() if amount.endswith("%") else amount
    whole, mark, _ = number.partition(decimal)
    separator = next((sign for sign in whole if sign in SEPARATORS), other)
    is_clear = len(amount) < len(bare) or other == delimiter or mark or whole.count(other) > 1 or separator != other
    if is_clear and re.fullmatch(rf"[1-9][0-9]{{0,2}}([{separator}][0-9]{{3}})+([{decimal}][0-9]*)?", number):
        number = number.replace(separator, "")
    if not re.fullmatch(plain, number):
        return None
    value = float(number.replace(decimal, "."))
    return -value if cell.startswith("-") else value


def _posterior(path: Path, content: bytes) -> Posterior:
    """The posterior in the bytes of a file; a burnpack file without metadata has the weights of a point."""
    notes, tensors = (_burnpack if content.startswith(b"NRUB") else _safetensors)(path, content)
    checksum = notes.get("checksum", "")
    if checksum and hashlib.sha256(content.replace(checksum.encode(), b"0" * 64, 1)).hexdigest() != checksum:
        raise ReadError(f"{path}: it has changed since it was saved: its checksum is wrong; {RESTORE}")
    if "layout" in notes:
        _expect_format(path, notes.get("format_version"), POSTERIOR_FORMAT)
        layout = {entry["path"]: (tuple(entry["shape"]), entry["offset"]) for entry in json.loads(notes["layout"])}
    else:
        starts = np.cumsum([0] + [tensor.size for tensor in tensors.values()]).tolist()
        layout = {name: (tensor.shape, start) for (name, tensor), start in zip(tensors.items(), starts)}
        tensors = {"mean": np.concatenate([tensor.ravel() for tensor in tensors.values()])}
    form = notes.get("form", "point")
    if form not in ("covariance", "precision", "samples", "point"):
        raise ReadError(f"{path}: its form `{form}` is unknown here; use `burn-bayes predict`")
    samples = tensors.get("samples", np.zeros((0, 0)))
    mean = tensors["mean"] if form != "samples" else samples.mean(axis=0)
    return Posterior(
        form, layout, mean, tensors.get("factors", np.zeros((0, mean.size))), tensors.get("diag", np.zeros(0)), samples
    )


def _safetensors(path: Path, content: bytes) -> Tuple[Dict[str, str], Dict[str, Array]]:
    """The length of the header, the header in JSON, and the tensors."""
    start = 8 + int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8:start])
    except ValueError:
        raise ReadError(f"{path}: it is no safetensors file; {RESTORE}") from None
    return header.pop("__metadata__", {}), _tensors(path, header, content[start:])


def _burnpack(path: Path, content: bytes) -> Tuple[Dict[str, str], Dict[str, Array]]:
    """Magic number, version and length of the header, the header in CBOR, and the tensors from a multiple of 256 on."""
    header, _ = _cbor(content, 10)
    start = -(-(10 + int.from_bytes(content[6:10], "little")) // 256) * 256
    return header.get("metadata", {}), _tensors(path, header["tensors"], content[start:])


def _cbor(content: bytes, at: int) -> Tuple[Any, int]:
    """The value that begins at a place, a number, text, list or map, which is all that a header has; and its end."""
    kind, size = content[at] >> 5, {24: 1, 25: 2, 26: 4, 27: 8}.get(content[at] & 31, 0)
    value, at = int.from_bytes(content[at + 1 : at + 1 + size], "big") if size else content[at] & 31, at + 1 + size
    if kind == 3:
        return content[at : at + value].decode(), at + value
    items: List[Any] = []
    for _ in range({4: value, 5: 2 * value}.get(kind, 0)):
        item, at = _cbor(content, at)
        items.append(item)
    return {4: items, 5: dict(zip(items[::2], items[1::2]))}.get(kind, value), at


def _tensors(path: Path, header: Dict[str, Any], content: bytes) -> Dict[str, Array]:
    """The tensors of weights; what a model has besides them may be of other types."""
    if max(entry["data_offsets"][1] for entry in header.values()) > len(content):
        raise ReadError(f"{path}: it ends too early; {RESTORE}")
    tensors = {name: entry for name, entry in header.items() if entry["dtype"] == "F32"}
    values = {name: np.frombuffer(content[slice(*entry["data_offsets"])], "<f4") for name, entry in tensors.items()}
    return {name: values[name].astype(float).reshape(entry["shape"]) for name, entry in tensors.items()}


def _toml(path: Path, content: bytes, expected: Optional[int] = None) -> Dict[str, Any]:
    try:
        found = tomllib.loads(content.decode())
    except ValueError as problem:
        raise ReadError(f"{path}: {problem}; {RESTORE}") from None
    if expected is not None:
        _expect_format(path, found.get("format"), expected)
    return found


def _expect_format(path: Path, found: Any, expected: Any) -> None:
    if found != expected:
        cure = "use the reader of the program that wrote it, or fit again"
        raise ReadError(f"{path}: it has format {found}, but this reader reads {expected}; {cure}")


def _checksum(content: bytes) -> str:
    """FNV-1a, in hexadecimal digits."""
    found = 0xCBF29CE484222325
    for byte in content:
        found = (found ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{found:016x}"


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=2, keepdims=True))
    return powers / powers.sum(axis=2, keepdims=True)


def _softplus(values: Array) -> Array:
    """ln(1 + exp), also of complex numbers."""
    is_above = values.real > 0.0
    return np.where(is_above, values, 0.0) + np.log1p(np.exp(np.where(is_above, -values, values)))


def _sigmoid(values: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * values))


def _relu(values: Array) -> Array:
    return np.where(values.real > 0.0, values, 0.0)


def _silu(values: Array) -> Array:
    return values * _sigmoid(values)


def _entropy(probabilities: Array) -> Array:
    return -(probabilities * np.log(np.where(probabilities > 0.0, probabilities, 1.0))).sum(axis=-1)

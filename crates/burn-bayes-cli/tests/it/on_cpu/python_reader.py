"""Compares the predictions of `python/burn_bayes_reader.py` with those of the program.

    python_reader.py agree PROGRAM RUN ROWS    for the rows of a file
    python_reader.py refuse RUN                the errors of damaged files and unusable rows
    python_reader.py cells RUN ROWS            cells of Python's types, and the warnings of far ones
"""

import csv
import io
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

import burn_bayes_reader as reader

DRAWS = 4000


def of_program(program, run, rows, draws):
    command = [program, "predict", run, rows, "--draws", str(draws)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    names, *cells = csv.reader(io.StringIO(text, newline=""))
    return {name: [row[place] for row in cells] for place, name in enumerate(names) if name != "row"}


def agree(program, folder, rows):
    before = contents(folder)
    run = reader.load(folder)
    posteriors = [posterior for _, posterior in run.posteriors]
    if len(posteriors) > 1:
        expect("`run.posteriors`", lambda: run.posterior)
    is_exact = all(posterior.form in ("samples", "point") for posterior in posteriors)
    counts = [max(1, len(posterior.samples)) for posterior in posteriors]
    draws = sum(counts) if is_exact else DRAWS
    expected = of_program(program, folder, rows, draws)
    found = run.predict(rows, draws=None if is_exact else DRAWS)
    assert list(found) == list(expected), (list(found), list(expected))
    targets = [target["name"] for target in run.preparation.targets]
    for name, values in expected.items():
        if name.endswith("label"):
            assert list(found[name]) == values, name
        else:
            limit = rounding(np.array(values, float)) if is_exact else random_error(name, found, targets)
            check(name, found[name], np.array(values, float), limit)
    check_forms_of_rows(run, rows, [name for name in found if not name.split("_")[-1].startswith("q0.")])
    for posterior in posteriors:
        check_draws(posterior)
    assert contents(folder) == before, "the reader wrote into the run"


def check(name, found, expected, limit):
    worst = np.argmax(np.abs(found - expected) - limit)
    assert np.all(np.abs(found - expected) <= limit), (name, worst, found[worst], expected[worst], limit)


def rounding(values):
    """Errors of single precision."""
    return 1e-5 * np.sqrt(np.mean(values**2)) + 1e-7


def random_error(name, found, targets):
    """Five standard errors of the difference of two predictions; half of the draws mirror the other half."""
    error = 5.0 * np.sqrt(2.0 / (DRAWS / 2))
    target = next((f"{target}_" for target in targets if len(targets) > 1 and name.startswith(target)), "")
    column = name[len(target) :]
    if column == "std":
        return error * found[f"{target}std"]
    if column == "mean" or column.startswith("epistemic_std"):
        return error * found[f"{target}epistemic_std"]
    if column.startswith("q0."):
        is_count = np.all(found[name] % 1.0 == 0.0)
        return error * found[f"{target}std"] + float(is_count)
    return error  # probabilities and entropies


def check_forms_of_rows(run, path, names):
    """Dicts and columns are the same rows as the file; a few rows without quantiles have the other columns."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    inputs = run.preparation.inputs(path)
    for form in (rows, columns):
        assert np.array_equal(run.preparation.inputs(form), inputs)
    few = run.predict(rows[:3], quantiles=())
    assert list(few) == names and all(values.shape == (3,) for values in few.values())
    layout = run.posteriors[0][1].layout
    weights = run.draw_weights(7, seed=3)
    assert {name: values.shape[1:] for name, values in weights.items()} == {name: layout[name][0] for name in layout}


def check_draws(posterior):
    """The draws have the mean and the covariance of the form."""
    if posterior.form in ("samples", "point"):
        return
    dense = posterior.factors.T @ posterior.factors + np.diag(posterior.diagonal)
    dense = np.linalg.inv(dense) if posterior.form == "precision" else dense
    count = 20_000
    draws = posterior.draw(count, seed=5)
    scale = np.sqrt(np.diag(dense))
    deviations = (draws - posterior.mean) / scale
    # Six standard errors; the mean of pairs is exact.
    assert np.abs(deviations.mean(axis=0)).max() < 1e-9
    error = np.abs(deviations.T @ deviations / count - dense / np.outer(scale, scale)).max()
    assert error < 6.0 * np.sqrt(2.0 / (count / 2)), error
    first = next(iter(posterior.layout))
    assert posterior[first]["mean"].shape == posterior[first]["diagonal"].shape == posterior.layout[first][0]


def contents(folder):
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def expect(part, act):
    """An error that says this."""
    try:
        act()
    except reader.ReadError as error:
        assert part in str(error), (part, str(error))
    else:
        raise AssertionError(f"no error with `{part}`")


def refuse(folder):
    damaged = Path("damaged")

    def with_change(name, change, part):
        shutil.copytree(folder, damaged)
        path = damaged / name
        content = change(path.read_bytes())
        path.unlink() if content is None else path.write_bytes(content)
        expect(part, lambda: reader.load(damaged))
        shutil.rmtree(damaged)

    posterior = "posterior.safetensors"
    with_change("model.toml", lambda _: None, "--resume")
    with_change("model.toml", lambda content: content + b"\n", "model.toml: it is damaged")
    with_change(posterior, lambda _: None, f"{posterior}: it is missing")
    with_change(posterior, lambda content: content[:-1] + bytes([content[-1] ^ 1]), f"{posterior}: it was changed")
    with_change("preprocessor.toml", lambda content: content + b"# edited\n", "preprocessor.toml: it was changed")

    def of_other_format(content):
        body = content.partition(b"\n")[2].replace(b"format = ", b"format = 9")
        return f'checksum = "{reader._checksum(body)}"\n'.encode() + body

    with_change("model.toml", of_other_format, "but this reader reads")
    content = (Path(folder) / posterior).read_bytes()
    for change, part in (
        (content[:-1] + b"\0\0", "checksum is wrong"),
        (content[:-4], "ends too early"),
        (b"x" * 99, "no safetensors"),
    ):
        Path("damaged.safetensors").write_bytes(change)
        expect(part, lambda: reader.read_posterior("damaged.safetensors"))

    run = reader.load(folder)
    row = {"day": "2024-03-01", "area": "70", "town": "Oslo"}
    run.predict([row])
    for change, part in (
        ({"area": "seventy"}, "row 1, column `area`: `seventy` is not a finite number"),
        ({"day": "03/2024"}, "row 1, column `day`: `03/2024` is not a date"),
        ({"area": 1e300}, "much larger than in training"),
    ):
        expect(part, lambda: run.predict([{**row, **change}]))
    expect("no column `town`", lambda: run.predict({"day": ["2024-03-01"], "area": [70]}))
    expect("no rows", lambda: run.predict({"day": [], "area": [], "town": []}))
    # Numbers, missing cells of every kind, and an unknown category.
    same = [
        {**row, "area": area, "town": town}
        for area, town in (("70", ""), (70, None), (70.0, float("nan")), ("$70", "NA"))
    ]
    inputs = run.preparation.inputs(same)
    assert (inputs == inputs[0]).all(), inputs
    assert not np.isnan(run.predict([{**row, "town": "Paris"}])["mean"]).any()

    class NAType:
        """Such as pandas.NA."""

        def __ne__(self, other):
            raise TypeError("boolean value of NA is ambiguous")

    run.preparation.data["na_values"] += ["-999", "unknown"]
    for cell in (NAType(), -999, -999.0, "-999.0", "-999", "unknown"):
        found = run.preparation.inputs([{**row, "area": cell}, {**row, "area": None}])
        assert (found[0] == found[1]).all(), cell
    found = run.preparation.inputs([{**row, "town": "-999.0"}, {**row, "town": None}])
    assert (found[0] != found[1]).any(), "a category is compared as text"

    file = Path("rows.csv")
    for text, part in (
        ('day,area,town\n2024-03-01,70,"Oslo\n2024-03-02,80,Rome\n', "rows.csv, row 1: an opening quote without"),
        ('day,area,town\n2024-03-01,70,Oslo\n2024-03-02,80,"', "rows.csv, row 2: an opening quote without"),
        ("day,area,town,area\n2024-03-01,70,Oslo,80\n", "column `area`: the same name twice"),
    ):
        file.write_text(text, encoding="utf-8")
        expect(part, lambda: run.predict(file))
    # What the program reads, too: a quote within a cell, or after a closed one, and two in the place of one.
    lines = ("day,area,town", '2024-03-01,70,Os"lo', '2024-03-01,70,"Os"lo', '2024-03-01,70,"Os""lo"')
    file.write_text("\n".join(lines), encoding="utf-8")
    assert len(run.preparation.inputs(file)) == 3

    reader.MOST_RATE, one = 100, np.ones((1, 1))
    expect("a quantile of counts above 1000", lambda: reader._count_columns(90.0 * one, 10.0 * one, 1, [0.5, 0.99]))
    assert reader._count_columns(90.0 * one, 10.0 * one, 1, [0.5])["q0.5"] < 90.0


def cells(folder, path):
    run = reader.load(folder)
    with open(path, newline="", encoding="utf-8") as file:
        _, *lines = csv.reader(file)
    inputs = run.preparation.inputs(path)
    assert len(inputs) == len(lines)
    of_types = [(float, int, bool), (int, float, np.bool_), (np.float32, np.int64, bool)]
    for number, code, truth in of_types:
        rows = [
            {
                "column_0": number(line[0]),
                "wet": truth(line[1] == "true"),
                "code": code(float(line[2])),
                "open": truth(line[3] == "True"),
            }
            for line in lines
        ]
        assert np.array_equal(run.preparation.inputs(rows), inputs), (number, code, truth)
    row = rows[0]
    for change, parts in (
        ({}, ()),
        ({"wet": None}, ("row 1, column `wet`: no value, and no training row lacks one",)),
        ({"code": 9, "column_0": 1000}, ("column `column_0`: 1000.0 is far outside", "`9` is in no training row")),
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            run.predict([{**row, **change}])
        assert len(told) == len(parts), told
        assert all(part in str(warning.message) for part, warning in zip(parts, told)), told
    text = Path(path).read_text(encoding="utf-8")
    Path("long.csv").write_text(text.replace("true", "t" * 200_000, 1), encoding="utf-8")
    assert len(run.preparation.inputs("long.csv")) == len(lines)


if __name__ == "__main__":
    {"agree": agree, "refuse": refuse, "cells": cells}[sys.argv[1]](*sys.argv[2:])

//! Laws of every report: one self-contained, well-formed page.

mod evaluation;
mod figures;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use burn::module::ParamGroup;
use burn::nn::LinearConfig;
use burn::tensor::{Device, Tensor};
use burn_bayes::FactorPosterior;
use burn_bayes::graph::Layout;
use burn_bayes_data::{Column, ColumnScale, Dataset, Features, Targets, gap_regression, two_moons};

use super::testing::{Sample, classification, rare_faults, regression};
use super::{
    FitCaption, PosteriorSummary, Problem, ScoredRows, SideBySide, TrainingCurve, write,
    write_side_by_side,
};
use crate::assessment::Assessment;
use crate::engine::{Diagnosis, Importance, Motion, fit};
use crate::experiments::simulation_based_calibration::{Check, CheckReport};
use crate::predict::{ClassPredictions, Predictions, RealPredictions};
use crate::rows::{RowInputs, Target, TrainingSet, Units};
use crate::scores::{Scores, Verdict};
use crate::settings::{FitSettings, Method};
use crate::text::number;

/// Writes a report, and returns the page and its charts.
fn written(sample: &Sample) -> (String, Vec<(String, String)>) {
    written_by(|path| write(&sample.report(), path).unwrap())
}

/// The page that `write` writes to a path, and its charts.
fn written_by(write: impl FnOnce(&Path)) -> (String, Vec<(String, String)>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    write(&path);
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let drawings = std::fs::read_dir(folder.path().join("plots"))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (
                entry.file_name().into_string().unwrap(),
                read(&entry.path()),
            )
        });
    (read(&path), drawings.collect())
}

/// The names of the elements, after checking that they are closed in order and attributes are quoted.
fn elements(markup: &str) -> BTreeSet<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut names = BTreeSet::new();
    let mut rest = markup;
    while let Some((text, tail)) = rest.split_once('<') {
        assert!(
            open.last() == Some(&"style") || !text.contains('>'),
            "stray `>` in {text}"
        );
        let (tag, after) = tail.split_once('>').expect("an element ends");
        rest = after;
        if tag.starts_with("!DOCTYPE") {
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
            continue;
        }
        let name = tag.split([' ', '/', '\n']).next().unwrap();
        names.insert(name.to_string());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    names
}

/// The page without the marks of technical terms.
fn unmarked(page: &str) -> String {
    let mut pieces = page.split("<abbr ");
    let mut text = pieces.next().unwrap().to_string();
    for piece in pieces {
        let (_, after) = piece.split_once('>').unwrap();
        text += &after.replacen("</abbr>", "", 1);
    }
    text
}

/// Checks the laws of every report, and returns the page without marks of technical terms.
fn checked(sample: &Sample) -> String {
    checked_page(written(sample))
}

fn checked_page((page, drawings): (String, Vec<(String, String)>)) -> String {
    check_laws(&page, &drawings);
    assert_eq!(page.matches("<figure>").count(), drawings.len());
    unmarked(&page)
}

/// Checks the laws of every page, and of its drawings with their names.
fn check_laws(page: &str, drawings: &[(String, String)]) {
    let names = elements(page);
    for forbidden in ["script", "link", "img", "iframe"] {
        assert!(!names.contains(forbidden), "<{forbidden}>");
    }
    for forbidden in ["http", "url(", "@import", "NaN", "inf,", "javascript:"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert_eq!(
        page.matches("role=\"img\" aria-label=\"").count(),
        drawings.len()
    );
    let parts = |mark: &str| -> Vec<&str> {
        let parts = page.split(mark).skip(1);
        parts.map(|part| part.split('"').next().unwrap()).collect()
    };
    let anchors: BTreeSet<&str> = parts(" id=\"").into_iter().collect();
    assert_eq!(
        anchors.len(),
        parts(" id=\"").len(),
        "an anchor occurs twice"
    );
    for link in parts("href=\"#") {
        assert!(anchors.contains(link), "#{link} leads nowhere");
    }
    for (name, drawing) in drawings {
        assert!(name.ends_with(".svg"));
        assert!(elements(drawing).contains("title"), "{name}");
        assert!(!drawing.contains("NaN"), "{name}");
    }
}

#[test]
fn a_classification_shows_its_scores() {
    let sample = classification(&["setosa", "versicolor", "virginica"], 400, 20).with_training();
    let page = checked(&sample);
    let Scores::Classification(scores) = &sample.scores else {
        unreachable!()
    };
    let referral = &scores.selective[0].referral;
    for value in [
        scores.accuracy.value.unwrap(),
        scores.nll.value.unwrap(),
        scores.accuracy.interval.unwrap().lower,
        scores.selective[2].aurc.value.unwrap(),
        referral[5].accuracy,
        referral[3].auroc.unwrap(),
    ] {
        assert!(page.contains(&number(value)), "{value}");
    }
    for heading in [
        "Training",
        "Calibration",
        "Referral",
        "Posterior",
        "Settings",
    ] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")));
    }
}

#[test]
fn a_regression_shows_its_scores() {
    let sample = regression(300, 30).with_training();
    let page = checked(&sample);
    let Scores::Regression(scores) = &sample.scores else {
        unreachable!()
    };
    for value in [
        scores.rmse.value.unwrap(),
        scores.crps.value.unwrap(),
        scores.intervals[1].coverage.value.unwrap(),
        scores.intervals[2].mean_width.value.unwrap(),
        scores.selective[0].referral[5].rmse,
    ] {
        assert!(page.contains(&number(value)), "{value}");
    }
    // The simulated predictions are calibrated.
    assert!((scores.intervals[2].coverage.value.unwrap() - 0.95).abs() < 0.05);
}

#[test]
fn hostile_names_stay_text() {
    const HOSTILE: &str = "</title></svg><script>alert('x')</script>&\"\u{0}\n";
    let mut sample = classification(&[HOSTILE, "b"], 30, 3).with_training();
    sample.title = HOSTILE.into();
    sample.target = HOSTILE.into();
    sample.training[0].label = HOSTILE.into();
    sample.training[0].unit = HOSTILE.into();
    let page = checked(&sample);
    assert!(page.contains("alert(") && !page.contains("<script"));
    let mut sample = regression(30, 3);
    sample.target = HOSTILE.into();
    assert!(!checked(&sample).contains("<script"));
}

#[test]
fn small_and_wide_cases_have_a_page() {
    let names: Vec<String> = (0..30).map(|class| format!("class {class}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for sample in [
        classification(&names, 90, 4),
        classification(&["a", "b"], 2, 1),
        classification(&["only"], 5, 2),
        regression(2, 1),
        regression(1, 2),
    ] {
        checked(&sample);
    }
    let same = RealPredictions::new(0.5, 2, vec![1.0; 6]);
    checked(&Sample::new(
        "y",
        Predictions::Reals(same),
        Targets::Real(vec![1.0; 3]),
    ));
    let certain = ClassPredictions::new(vec!["a".into(), "b".into()], 1, vec![1.0, 0.0, 0.0, 1.0]);
    checked(&Sample::new(
        "y",
        Predictions::Classes(certain),
        Targets::Classes(vec![0, 1]),
    ));
}

#[test]
fn curves_without_values_are_left_out() {
    let curve = |points| TrainingCurve {
        label: "loss".into(),
        unit: "nats".into(),
        points,
    };
    let mut sample = regression(5, 2);
    sample.training = vec![curve(Vec::new()), curve(vec![(1, f64::NAN)])];
    assert!(!checked(&sample).contains("<h2>Training</h2>"));
    sample.training.push(curve(vec![(1, 0.5)]));
    assert!(checked(&sample).contains("<h2>Training</h2>"));
}

#[test]
fn a_posterior_is_summed_up_as_by_hand() {
    let device = Device::default();
    let layer = LinearConfig::new(5, 8).init(&device.clone().autodiff());
    let layout = Arc::new(Layout::new(&layer, &ParamGroup::all()).unwrap());
    let count = layout.len();
    // Two factors along different weights: singular values 3 and 2.
    let mut factors = vec![0f32; 2 * count];
    (factors[0], factors[count + 1]) = (2.0, -3.0);
    let small = FactorPosterior::covariance(
        layout.clone(),
        Tensor::zeros([count], &device),
        Some(Tensor::<1>::from_floats(factors.as_slice(), &device).reshape([2, count])),
        Tensor::full([count], 0.25, &device),
    )
    .unwrap();
    let mut sample = regression(10, 2);
    sample.posterior = Some(PosteriorSummary::of(&small).unwrap());
    let page = checked(&sample);
    // 4 + 9 of 13 + 48/4.
    assert!(page.contains("which account for 52\u{a0}% of the total variance"));
    // Median of the biases, all at √0.25.
    assert!(page.contains("<th scope=\"row\">bias</th><td>8</td><td>0.5000</td>"));

    let diagonal = FactorPosterior::precision(
        layout.clone(),
        Tensor::zeros([count], &device),
        None,
        Tensor::full([count], 4.0, &device),
    )
    .unwrap();
    sample.posterior = Some(PosteriorSummary::of(&diagonal).unwrap());
    assert!(checked(&sample).contains("without factors"));
}

#[test]
fn a_fit_that_diverged_says_so_before_everything_else() {
    let sample = regression(30, 4).with_training();
    let sound = sample.report();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let page = |report: &super::Report<'_>| {
        write(report, &path).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        elements(&page);
        page
    };
    assert!(!page(&sound).contains("diverged"));
    let diverged = Some("the NLL is <not> finite");
    let whole = super::Report { diverged, ..sound };
    let unscored = super::Report {
        rows: None,
        ..whole
    };
    for report in [whole, unscored] {
        let page = page(&report);
        let banner = page.find("This fit cannot be used").unwrap();
        assert!(banner < page.find("<nav").unwrap(), "{page}");
        assert!(
            page.contains("not&#62; finite") && page.contains("id=\"training\""),
            "{page}"
        );
        assert_eq!(page.contains("id=\"scores\""), report.rows.is_some());
        assert_eq!(page.contains("href=\"#scores\""), report.rows.is_some());
    }
}

#[test]
fn the_verdict_is_above_everything_else_in_words_and_colour() {
    let sample = regression(30, 4).with_training();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    for (verdict, class, words) in [
        (Verdict::Trust, "trust", "trust"),
        (Verdict::LookCloser, "look-closer", "look closer"),
        (Verdict::DoNotUse, "do-not-use", "do not use"),
    ] {
        let diagnosis = Diagnosis {
            verdict,
            decrement: if verdict == Verdict::Trust {
                0.34
            } else {
                12.34
            },
            covariance_gain: 0.5,
            standard_error: 0.05,
            weights: 20,
            motion: Motion {
                fluctuation: (verdict == Verdict::DoNotUse).then_some(2.5),
                drift: None,
            },
            cure: (verdict != Verdict::Trust).then(|| "give more `epochs`".into()),
            importance: Importance::Absent {
                absent: "the test has none".into(),
            },
        };
        let assessment = Assessment {
            diagnosis: Some(diagnosis),
            ..Assessment::default()
        };
        let panel = assessment.judged().panel();
        let report = super::Report {
            verdict: panel.as_ref(),
            ..sample.report()
        };
        write(&report, &path).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        elements(&page);
        let panel = format!("<div class=\"verdict {class}\"><strong>Verdict: {words}</strong>");
        assert!(page.find(&panel).unwrap() < page.find("<nav").unwrap());
        assert!(
            page.contains(if verdict == Verdict::Trust {
                " 0.3 nats (0.017 per weight).</li>"
            } else {
                " 12.3 nats (0.617 per weight).</li>"
            }) && page.contains("0.5 nats (0.025 per weight).</li>")
        );
        assert!(page.contains("<li>Pareto k̂ was not computed: the test has none.</li>"));
        let has_converged = page.contains("The mean has converged");
        assert_eq!(has_converged, verdict == Verdict::Trust);
        assert_eq!(page.contains("<li>Give more epochs.</li>"), !has_converged);
        let fluctuates = page.contains("The last iterate of the mean is 2.5 posterior");
        assert_eq!(fluctuates, verdict == Verdict::DoNotUse);
        assert!(page.contains(&format!("--{class}: #")));
    }
}

#[test]
fn parts_of_different_tasks_are_refused() {
    let (classes, reals) = (classification(&["a", "b"], 4, 2), regression(4, 2));
    let folder = tempfile::tempdir().unwrap();
    let is_refused = |rows: ScoredRows<'_>| {
        let rows = Some(rows);
        let report = super::Report {
            rows,
            ..classes.report()
        };
        write(&report, &folder.path().join("report.html")).is_err()
    };
    let of_classes = classes.report().rows.unwrap();
    let of_reals = reals.report().rows.unwrap();
    assert!(is_refused(ScoredRows {
        scores: &reals.scores,
        ..of_classes
    }));
    assert!(is_refused(ScoredRows {
        targets: &classes.targets,
        ..of_reals
    }));
    assert!(!folder.path().join("report.html").exists());
}

#[test]
fn the_book_shows_these_charts() {
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/images");
    let of_classes = classification(&["setosa", "versicolor", "virginica"], 600, 20);
    let charts: [(Sample, &[&str]); 3] = [
        (
            of_classes.with_training(),
            &[
                "training-1",
                "reliability",
                "entropy",
                "risk-coverage",
                "deviations",
                "confusion",
            ],
        ),
        (rare_faults(1500), &["precision-recall"]),
        (
            regression(300, 30).with_training().with_inputs(),
            &["intervals", "pit", "spectrum", "conditional-coverage"],
        ),
    ];
    for (sample, names) in charts {
        let (_, drawings) = written(&sample);
        for name in names {
            let file = format!("{name}.svg");
            let (_, drawn) = drawings.iter().find(|(of, _)| *of == file).unwrap();
            let path = format!("{images}/report-{file}");
            if std::env::var_os("UPDATE_BOOK_IMAGES").is_some() {
                std::fs::write(&path, drawn).unwrap();
            }
            let shown = std::fs::read_to_string(&path).unwrap();
            assert!(
                shown == *drawn,
                "{path} is not what the program draws: run this test with UPDATE_BOOK_IMAGES=1"
            );
        }
    }
}

#[test]
fn the_ranks_of_simulations_have_a_page_of_the_same_laws() {
    let names = ["weight of <b>", "log-likelihood"].map(String::from);
    let ranks = (0..200).map(|simulation| Some(vec![9 * (simulation % 2), simulation % 10]));
    let check = Check::of(&names, 9, &ranks.chain([None]).collect::<Vec<_>>()).unwrap();
    let report = CheckReport {
        title: "Calibration of “vifa”",
        subtitle: "201 simulations",
        command: "burn-bayes check",
        config: "",
        check: &check,
    };
    let page = checked_page(written_by(|path| report.write(path).unwrap()));
    for words in [
        "Verdict: miscalibrated",
        "Too narrow for weight of &#60;b&#62;.",
        "1 of 201 fits diverged",
        "Histograms of the ranks",
    ] {
        assert!(page.contains(words), "no {words}");
    }
    assert_eq!(page.matches("<figure>").count(), 4);
}

#[test]
fn technical_terms_are_explained_on_the_page() {
    let sample = classification(&["a", "b"], 50, 5).with_training();
    let (page, _) = written(&sample);
    for term in ["NLL", "ECE", "AURC", "mutual information", "entropy"] {
        let (before, _) = page.split_once(&format!(">{term}</abbr>")).expect(term);
        let title = before.rsplit_once("<abbr title=\"").unwrap().1;
        assert!(title.ends_with(".\""), "{term}: {title}");
    }
    // Classes and columns with the name of a term are none.
    let mut sample = classification(&["precision", "recall"], 50, 5);
    let numbers = (0..50).map(f64::from).collect();
    sample.inputs = Some(RowInputs::of_columns(vec![Column::numbers(
        "coverage", numbers,
    )]));
    let (mixed, _) = written(&sample);
    for name in [
        "<th scope=\"row\">precision</th>",
        "<th scope=\"col\">precision</th>",
        "<th scope=\"col\">coverage</th>",
        ">precision</abbr>",
    ] {
        assert!(mixed.contains(name), "{name}");
    }
    assert!(!mixed.contains(">coverage</abbr>"));
    // A classification has no CRPS.
    assert!(!page.contains("CRPS"));
    let (page, _) = written(&regression(50, 5));
    assert!(page.contains(">CRPS</abbr>") && !page.contains(">ECE</abbr>"));
}

#[test]
fn intervals_say_what_they_assume() {
    let mut sample = classification(&["a", "b"], 60, 3).with_inputs();
    let assumption = "They assume independent rows.";
    assert!(checked(&sample).contains(assumption));
    let groups: Vec<usize> = (0..60).map(|row| row / 4).collect();
    sample.inputs.as_mut().unwrap().units = Units::of(&groups);
    let page = checked(&sample);
    assert!(page.contains("whole groups, or periods") && !page.contains(assumption));
}

#[test]
fn a_logarithmic_axis_has_round_ticks() {
    let (_, drawings) = written(&regression(20, 3).with_training());
    let mut drawings = drawings.iter();
    let (_, drawing) = drawings.find(|(name, _)| name == "deviations.svg").unwrap();
    let texts = drawing.split("</text>").filter_map(|text| {
        let (_, text) = text.rsplit_once('>')?;
        text.trim().parse::<f64>().ok()
    });
    let ticks: Vec<f64> = texts.collect();
    assert!(ticks.len() > 2, "{ticks:?}");
    for value in ticks {
        let mantissa = value / 10f64.powf(value.log10().floor());
        let is_round = [1.0, 2.0, 5.0, 10.0]
            .iter()
            .any(|digit| (mantissa - digit).abs() < 1e-9);
        assert!(is_round, "{value}");
    }
}

#[test]
fn methods_stand_side_by_side() {
    let unscaled = ColumnScale::KEPT;
    let curve = gap_regression(30, 0.1, 1).unwrap();
    let plane = two_moons(30, 0.1, 1).unwrap();
    let classes = ["<upper>", "lower"].map(String::from).to_vec();
    let sets = [
        TrainingSet::new(&curve, Target::Real(unscaled)).unwrap(),
        TrainingSet::new(&plane, Target::Classes(classes)).unwrap(),
    ];
    let problems = ["curve", "plane"].into_iter().zip(&sets);
    let problems: Vec<Problem> = problems
        .map(|(name, rows)| {
            let mut problem = Problem::new(name, "thirty rows", rows).unwrap();
            for method in [Method::Map, Method::Vifa] {
                let settings = FitSettings {
                    method,
                    epochs: Some(3),
                    ..FitSettings::default()
                };
                let model = fit(rows, &settings, &mut ()).unwrap();
                let caption = FitCaption {
                    method: &method.to_string(),
                    diverged: (method == Method::Map).then_some("it was told to"),
                    scores: &[("NLL", Some(0.25)), ("ECE", None)],
                    report: "there/report.html",
                };
                let predictions = model.predict(&problem.places().unwrap(), 5).unwrap();
                problem.add(&predictions, caption).unwrap();
            }
            problem
        })
        .collect();
    let content = SideBySide {
        title: "Two methods",
        text: "Look at them.",
        command: "burn-bayes demo",
        problems: &problems,
    };
    let (page, drawings) = written_by(|path| write_side_by_side(&content, path).unwrap());
    check_laws(&page, &drawings);
    let names: BTreeSet<&str> = drawings.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["legend", "map", "vifa"];
    let of = |problem| expected.map(|name| format!("{problem}-{name}.svg"));
    let expected: BTreeSet<String> = of("curve").into_iter().chain(of("plane")).collect();
    assert_eq!(names, expected.iter().map(String::as_str).collect());
    assert_eq!(page.matches("<figure>").count(), 4);
    assert_eq!(page.matches("it was told to").count(), 2);
    assert_eq!(page.matches("href=\"there/report.html\"").count(), 4);
    // A point estimate has no epistemic limits; the bands are polygons, and cells of certainty rectangles.
    let drawing = |wanted: &str| {
        let mut drawings = drawings.iter();
        &drawings.find(|(name, _)| name == wanted).unwrap().1
    };
    let limits = |name: &str| drawing(name).matches("#D55E00").count();
    assert_eq!((limits("curve-map.svg"), limits("curve-vifa.svg")), (0, 2));
    assert_eq!(drawing("curve-vifa.svg").matches("<polygon").count(), 2);
    assert_eq!(drawing("plane-vifa.svg").matches("<circle").count(), 2 * 30);

    let three = Features::new(2, 3, vec![0.0; 6]).unwrap();
    let three = Dataset::new(three, Targets::Real(vec![0.0, 1.0])).unwrap();
    let three = TrainingSet::new(&three, Target::Real(unscaled)).unwrap();
    let mut problem = Problem::new("space", "two rows", &three).unwrap();
    assert!(problem.places().is_err());
    let predictions = Predictions::Reals(RealPredictions::new(1.0, 1, vec![0.0; 2]));
    let caption = FitCaption {
        method: "map",
        diverged: None,
        scores: &[],
        report: "",
    };
    let error = problem.add(&predictions, caption).unwrap_err();
    assert!(error.to_string().contains("not predictions from 3"));
}

//! The laws of all posteriors, stated once, with one row per kind.

use std::path::Path;

use burn::module::ParamGroup;
use burn::nn::LinearConfig;
use burn::tensor::Tensor;
use burn_bayes::graph::Layout;
use burn_bayes::posterior::{Mixture, PointPosterior, Posterior, SamplePosterior};
use burn_bayes::{FactorPosterior, Noise};

use crate::support::{
    assert_same, bits, device, flat_layout, layout_of, matrix, normals, values, vector,
};

const LEN: usize = 700;

fn diagonal(seed: u64, len: usize) -> Tensor<1> {
    let values: Vec<f32> = normals(seed, len).iter().map(|x| 0.1 + x * x).collect();
    vector(&values)
}

fn factors(seed: u64, rank: usize) -> Option<Tensor<2>> {
    (rank > 0).then(|| matrix(rank, LEN, &normals(seed, rank * LEN)))
}

fn covariance(rank: usize, seed: u64) -> FactorPosterior {
    let mean = vector(&normals(seed, LEN));
    let diagonal = diagonal(seed + 1, LEN);
    FactorPosterior::covariance(flat_layout(LEN), mean, factors(seed + 2, rank), diagonal).unwrap()
}

fn precision(rank: usize, seed: u64) -> FactorPosterior {
    let mean = vector(&normals(seed, LEN));
    let diagonal = diagonal(seed + 1, LEN);
    FactorPosterior::precision(flat_layout(LEN), mean, factors(seed + 2, rank), diagonal).unwrap()
}

fn point(seed: u64) -> PointPosterior {
    PointPosterior::new(flat_layout(LEN), vector(&normals(seed, LEN))).unwrap()
}

/// The laws of [`Posterior`]; `name` is the file name.
fn obeys_the_laws<P: Posterior>(posterior: &P, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let noise = Noise::new(11);
    let sampler = posterior.sampler().unwrap();
    let draws = sampler.draws(noise, 9).unwrap();
    assert_eq!(draws.dims(), [9, LEN]);
    let rows = bits(&draws);
    let of_rows = |from: &dyn Fn(Noise) -> Tensor<1>| -> Vec<u32> {
        (0..9).flat_map(|row| bits(&from(noise.row(row)))).collect()
    };
    let of_rows_alone = of_rows(&|noise| sampler.draw(noise).unwrap());
    assert_same(name, &of_rows_alone, &rows);
    let another = |noise| posterior.sampler().unwrap().draw(noise).unwrap();
    assert_same("another sampler", &of_rows(&another), &rows);

    // Twice, because the second replaces the first.
    posterior.save(&path).unwrap();
    posterior.save(&path).unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{name}: {left:?}");
    let loaded = P::load(&path, &device()).unwrap();
    assert_eq!(**loaded.layout(), **posterior.layout());
    let again = loaded.sampler().unwrap().draws(noise, 9).unwrap();
    assert_eq!(bits(&again), rows, "{name}: loaded");

    let mean = posterior.mean_weights().unwrap();
    assert_eq!(
        bits(&loaded.mean_weights().unwrap()),
        bits(&mean),
        "{name}: mean"
    );
    assert!(P::load(&folder.path().join("none"), &device()).is_err_and(|e| e.is_storage()));
}

#[test]
fn factor_posteriors() {
    for rank in [0, 1, 5] {
        for name in ["q.bpk", "q.safetensors"] {
            obeys_the_laws(&covariance(rank, 1), name);
            obeys_the_laws(&precision(rank, 1), name);
        }
    }
}

#[test]
fn point_masses() {
    obeys_the_laws(&point(1), "q.bpk");
    obeys_the_laws(&point(1), "q.safetensors");
}

#[test]
fn samples() {
    let posterior = |count: usize| {
        let samples = matrix(count, LEN, &normals(1, count * LEN));
        SamplePosterior::new(flat_layout(LEN), samples)
    };
    for count in [1, 4, 12] {
        obeys_the_laws(&posterior(count).unwrap(), "q.bpk");
        obeys_the_laws(&posterior(count).unwrap(), "q.safetensors");
    }
    // As many rows as samples are all of them.
    let posterior = posterior(5).unwrap();
    let draws = posterior.sampler().unwrap().draws(Noise::new(3), 5);
    let sorted = |rows: Tensor<2>| {
        let mut rows: Vec<_> = bits(&rows).chunks(LEN).map(<[u32]>::to_vec).collect();
        rows.sort();
        rows
    };
    assert_eq!(sorted(draws.unwrap()), sorted(posterior.samples()));
    for (samples, what) in [
        (Tensor::zeros([0, LEN], &device()), "samples"),
        (Tensor::zeros([2, LEN - 1], &device()), "weights"),
        (Tensor::full([2, LEN], f32::NAN, &device()), "NaN"),
    ] {
        let error = SamplePosterior::new(flat_layout(LEN), samples).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn mixtures() {
    let members = vec![covariance(2, 1), precision(3, 5), covariance(0, 9)];
    obeys_the_laws(&Mixture::new(members, vec![1.0, 2.0, 3.0]).unwrap(), "q");
    let ensemble = Mixture::uniform((0..4).map(point).collect()).unwrap();
    obeys_the_laws(&ensemble, "q");
    let nested = vec![ensemble.clone(), ensemble];
    obeys_the_laws(&Mixture::new(nested, vec![0.25, 0.75]).unwrap(), "q");
}

#[test]
fn a_mixture_of_mixtures_draws_from_all_their_components() {
    let members: Vec<_> = (0..16).map(point).collect();
    let inner = members
        .chunks(4)
        .map(|four| Mixture::uniform(four.to_vec()));
    let outer = Mixture::uniform(inner.map(Result::unwrap).collect()).unwrap();
    let member = |draw: &[u32]| {
        let is_own = |point: &PointPosterior| bits(&point.mean_weights().unwrap()) == draw;
        members.iter().position(is_own).unwrap()
    };
    for seed in 0..5 {
        let draws = outer.sampler().unwrap().draws(Noise::new(seed), 32);
        let draws = bits(&draws.unwrap());
        let mut drawn: Vec<_> = draws.chunks(LEN).map(member).collect();
        drawn[..16].sort_unstable();
        assert_eq!(drawn[..16], Vec::from_iter(0..16));
        drawn[16..].sort_unstable();
        assert_eq!(drawn[16..], Vec::from_iter(0..16));
    }
    // Samples that are components are components of their own.
    let samples = |first: u64| {
        let rows = (first..first + 6).map(|seed| vector(&normals(seed, LEN)));
        let rows: Vec<_> = rows.collect();
        SamplePosterior::new(flat_layout(LEN), Tensor::stack(rows, 0)).unwrap()
    };
    let mixture = Mixture::new(vec![samples(0), samples(6)], vec![1.0, 2.0]).unwrap();
    let draws = mixture.sampler().unwrap().draws(Noise::new(3), 180);
    let mut counts = std::collections::HashMap::new();
    for draw in bits(&draws.unwrap()).chunks(LEN) {
        *counts.entry(draw.to_vec()).or_insert(0) += 1;
    }
    // 10 draws of each of the first six are expected, and 20 of the others.
    assert_eq!(counts.len(), 12);
    assert!(
        counts.values().all(|count| (2..=36).contains(count)),
        "{:?}",
        counts.values()
    );
}

#[test]
fn a_mixture_on_disk_is_the_one_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ensemble");
    let members = vec![covariance(2, 1), precision(3, 5)];
    let held = Mixture::new(members, vec![1.0, 2.0]).unwrap();
    held.save(&path).unwrap();
    let open = |path: &Path| Mixture::<FactorPosterior>::open(path, &device()).unwrap();
    let opened = open(&path);
    obeys_the_laws(&opened, "copy");
    let draws = |mixture: &Mixture| {
        let sampler = mixture.sampler().unwrap();
        bits(&sampler.draws(Noise::new(2), 20).unwrap())
    };
    assert_eq!(draws(&opened), draws(&held));
    let weights = vector(&normals(3, LEN));
    assert_eq!(
        opened.log_density(&weights).unwrap(),
        held.log_density(&weights).unwrap()
    );
    // Components are read when a draw needs them.
    std::fs::remove_file(path.join("component-1.bpk")).unwrap();
    let error = opened.sampler().unwrap().draws(Noise::new(2), 20);
    assert!(error.unwrap_err().to_string().contains("component-1.bpk"));
}

#[test]
fn the_mean_of_a_mixture_is_that_of_its_draws() {
    let members = vec![covariance(1, 1), covariance(2, 5)];
    let mixture = Mixture::new(members, vec![1.0, 3.0]).unwrap();
    const COUNT: usize = 4000;
    let draws = mixture.sampler().unwrap().draws(Noise::new(4), COUNT);
    let draws = draws.unwrap();
    let average = values(&draws.clone().mean_dim(0).squeeze_dim::<1>(0));
    let deviation = values(&draws.var(0).sqrt().squeeze_dim::<1>(0));
    let mean = values(&mixture.mean_weights().unwrap());
    for ((average, deviation), mean) in average.iter().zip(deviation).zip(mean) {
        let error = deviation / (COUNT as f64).sqrt();
        assert!((average - mean).abs() < 5.0 * error, "{average} {mean}");
    }
}

#[test]
fn a_mixture_is_saved_at_a_path_with_a_separator_at_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ensemble/");
    for seed in [1, 2] {
        let mixture = Mixture::uniform(vec![point(seed)]).unwrap();
        mixture.save(&path).unwrap();
        let read = Mixture::<PointPosterior>::load(&path, &device()).unwrap();
        assert_eq!(
            bits(&read.mean_weights().unwrap()),
            bits(&vector(&normals(seed, LEN)))
        );
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }
}

#[test]
fn threads_that_save_mixtures_at_one_path_leave_one_of_them_whole() {
    const THREADS: u64 = 6;
    const COMPONENTS: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ensemble");
    let start = std::sync::Barrier::new(THREADS as usize);
    // The second time, a mixture is replaced.
    for _ in 0..2 {
        std::thread::scope(|scope| {
            let threads = (0..THREADS).map(|seed| {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    let mixture = Mixture::uniform(vec![point(seed); COMPONENTS]).unwrap();
                    start.wait();
                    mixture.save(path)
                })
            });
            let threads: Vec<_> = threads.collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap().unwrap());
        });
        let read = Mixture::<PointPosterior>::load(&path, &device()).unwrap();
        assert_eq!(read.weights().len(), COMPONENTS);
        let saved = |index| bits(&read.component(index).unwrap().weights());
        assert!((0..THREADS).any(|seed| saved(0) == bits(&point(seed).weights())));
        assert!((1..COMPONENTS).all(|index| saved(index) == saved(0)));
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }
}

#[test]
fn a_mixture_replaces_nothing_but_a_mixture() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("letter.txt"), "keep me").unwrap();
    let mixture = Mixture::uniform(vec![point(1)]).unwrap();
    let error = mixture.save(&path).unwrap_err();
    assert!(error.is_storage(), "{error}");
    assert!(path.join("letter.txt").is_file());
}

#[test]
fn damaged_mixtures_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q");
    Mixture::uniform(vec![point(1), point(2)])
        .unwrap()
        .save(&path)
        .unwrap();
    let index = path.join("mixture.json");
    let text = std::fs::read_to_string(&index).unwrap();
    for (from, to) in [
        ("component-1.bpk", "../component-1.bpk"),
        ("component-1.bpk", ".."),
        ("component-1.bpk", "component-7.bpk"),
        ("\"format_version\": 1", "\"format_version\": 9"),
        ("0.5", "-0.5"),
        ("weights", "weight"),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&index, text.replacen(from, to, 1)).unwrap();
        let refused = [
            Mixture::<PointPosterior>::load(&path, &device()).map(drop),
            Mixture::<PointPosterior>::open(&path, &device())
                .and_then(|open| open.sampler()?.draws(Noise::new(0), 30))
                .map(drop),
        ];
        assert!(refused.iter().all(Result::is_err), "{from} → {to}");
    }
}

#[test]
fn weights_of_another_layout_or_without_end_are_refused() {
    let layer = LinearConfig::new(2, 1).init(&device());
    let layout = Layout::new(&layer, &ParamGroup::all()).unwrap();
    let short = PointPosterior::new(layout.clone().into(), vector(&[1.0, 2.0]));
    assert!(short.unwrap_err().is_layout());
    let endless = PointPosterior::new(layout.into(), vector(&[1.0, f32::NAN, 0.0]));
    assert!(endless.unwrap_err().is_numerical());
    let other = PointPosterior::new(layout_of(&[("a", LEN)]), vector(&normals(1, LEN)));
    let mixed = Mixture::uniform(vec![point(1), other.unwrap()]);
    assert!(mixed.unwrap_err().is_layout());
    // A form is never mistaken for another.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("q.bpk");
    point(1).save(&path).unwrap();
    let error = FactorPosterior::load(&path, &device()).unwrap_err();
    assert!(error.to_string().contains("`point`"), "{error}");
}

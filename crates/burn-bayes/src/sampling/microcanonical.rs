//! The step of microcanonical Langevin dynamics: a particle that moves with constant speed, whose direction the gradient
//! turns and noise refreshes.

use serde::{Deserialize, Serialize};

use super::density::LogDensity;
use crate::error::Result;

/// A place z with the unit vector u in which a particle moves, and what is known of the density there.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Particle {
    pub(super) place: Vec<f64>,
    direction: Vec<f64>,
    pub(super) log_density: f64,
    gradient: Vec<f64>,
}

impl Particle {
    /// A particle at a place, without a direction.
    pub(super) fn new(density: &mut impl LogDensity, place: Vec<f64>) -> Result<Self> {
        let mut gradient = vec![0.0; place.len()];
        Ok(Self {
            log_density: density.evaluate(&place, &mut gradient)?,
            direction: vec![0.0; place.len()],
            gradient,
            place,
        })
    }

    /// Whether the density and its gradient are finite here.
    pub(super) fn is_finite(&self) -> bool {
        self.log_density.is_finite() && self.gradient.iter().all(|slope| slope.is_finite())
    }

    /// B(ε/2) A(ε) B(ε/2) with the metric p. The error of the energy, ΔK − Δl; `None` for a step whose error is larger than
    /// `most` or not finite, and which is not made.
    pub(super) fn step(
        &mut self,
        density: &mut impl LogDensity,
        size: f64,
        metric: &[f64],
        most: f64,
    ) -> Result<Option<f64>> {
        let before = self.clone();
        let first = self.turn(0.5 * size, metric);
        for ((z, u), p) in self.place.iter_mut().zip(&self.direction).zip(metric) {
            *z += size * p * u;
        }
        self.log_density = density.evaluate(&self.place, &mut self.gradient)?;
        let kinetic = first + self.turn(0.5 * size, metric);
        let error = kinetic - (self.log_density - before.log_density);
        if error.abs() <= most && self.is_finite() {
            return Ok(Some(error));
        }
        *self = before;
        Ok(None)
    }

    /// B(t): turns u towards the gradient, exactly. The change of the kinetic energy.
    fn turn(&mut self, time: f64, metric: &[f64]) -> f64 {
        let slopes = || self.gradient.iter().zip(metric).map(|(slope, p)| slope * p);
        let norm = slopes().map(|slope| slope * slope).sum::<f64>().sqrt();
        if norm == 0.0 {
            return 0.0;
        }
        let cosine = slopes()
            .zip(&self.direction)
            .map(|(slope, u)| slope * u)
            .sum::<f64>()
            / norm;
        let others = self.place.len() as f64 - 1.0;
        let angle = time * norm / others;
        let q = (-angle).exp();
        let along = (1.0 - q) * (1.0 + q + cosine * (1.0 - q)) / norm;
        for ((u, slope), p) in self.direction.iter_mut().zip(&self.gradient).zip(metric) {
            *u = along * slope * p + 2.0 * q * *u;
        }
        normalise(&mut self.direction);
        others * (angle - std::f64::consts::LN_2 + (1.0 + cosine + (1.0 - cosine) * q * q).ln())
    }

    /// O: u + νn as a unit vector. With an infinite ν it is that of n.
    pub(super) fn refresh(&mut self, share: f64, normals: &[f32]) {
        for (u, &normal) in self.direction.iter_mut().zip(normals) {
            *u = match share.is_finite() {
                true => *u + share * f64::from(normal),
                false => f64::from(normal),
            };
        }
        normalise(&mut self.direction);
    }
}

fn normalise(vector: &mut [f64]) {
    let norm = vector.iter().map(|value| value * value).sum::<f64>().sqrt();
    vector.iter_mut().for_each(|value| *value /= norm);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::testing::Gaussian;

    fn particle(gaussian: &mut Gaussian) -> Particle {
        let place = vec![0.4, -1.2, 0.7];
        let mut particle = Particle::new(gaussian, place).unwrap();
        particle.refresh(f64::INFINITY, &[1.0, 2.0, -0.5]);
        particle
    }

    /// u is a unit vector, and for a fixed gradient du/dt = (I − uuᵀ) g/(d − 1), here integrated in small steps.
    #[test]
    fn a_turn_is_the_solution_of_its_differential_equation() {
        let mut gaussian = Gaussian::of_deviations(&[1.0, 0.3, 2.0]);
        let mut turned = particle(&mut gaussian);
        let metric = [1.0, 0.5, 2.0];
        let slopes: Vec<f64> = turned
            .gradient
            .iter()
            .zip(metric)
            .map(|(g, p)| g * p)
            .collect();
        let mut u = turned.direction.clone();
        let (time, steps) = (0.8, 20_000);
        let mut kinetic = 0.0;
        for _ in 0..steps {
            let along: f64 = u.iter().zip(&slopes).map(|(u, g)| u * g).sum();
            for (u, slope) in u.iter_mut().zip(&slopes) {
                *u += time / steps as f64 * (slope - along * *u) / 2.0;
            }
            kinetic += time / steps as f64 * along;
            normalise(&mut u);
        }
        let found = turned.turn(time, &metric);
        assert!((found - kinetic).abs() < 1e-3, "{found} {kinetic}");
        for (found, expected) in turned.direction.iter().zip(&u) {
            assert!((found - expected).abs() < 1e-3, "{found} {expected}");
        }
    }

    /// The error of a step is of third order, and the way back leads to where it started.
    #[test]
    fn steps_are_of_second_order_and_reversible() {
        let mut gaussian = Gaussian::of_deviations(&[1.0, 0.3, 2.0]);
        let metric = [1.0; 3];
        let start = particle(&mut gaussian);
        let errors: Vec<f64> = [0.02, 0.01]
            .map(|size| {
                let mut moved = start.clone();
                moved
                    .step(&mut gaussian, size, &metric, 1e9)
                    .unwrap()
                    .unwrap()
            })
            .to_vec();
        let ratio = errors[0] / errors[1];
        assert!((ratio - 8.0).abs() < 0.5, "{errors:?}");
        let mut moved = start.clone();
        let there = moved
            .step(&mut gaussian, 0.3, &metric, 1e9)
            .unwrap()
            .unwrap();
        moved.direction.iter_mut().for_each(|u| *u = -*u);
        let back = moved
            .step(&mut gaussian, 0.3, &metric, 1e9)
            .unwrap()
            .unwrap();
        assert!((there + back).abs() < 1e-12, "{there} {back}");
        for (found, expected) in moved.place.iter().zip(&start.place) {
            assert!((found - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn a_step_to_where_there_is_no_density_is_not_made() {
        struct Wall;
        impl LogDensity for Wall {
            fn evaluate(&mut self, place: &[f64], gradient: &mut [f64]) -> Result<f64> {
                gradient.fill(0.0);
                Ok(if place[0] < 1.0 {
                    0.0
                } else {
                    f64::NEG_INFINITY
                })
            }
        }
        let mut particle = Particle::new(&mut Wall, vec![0.9, 0.0]).unwrap();
        particle.refresh(f64::INFINITY, &[1.0, 0.0]);
        assert_eq!(particle.step(&mut Wall, 0.5, &[1.0; 2], 1e9).unwrap(), None);
        assert_eq!(particle.place, [0.9, 0.0]);
        assert!(
            particle
                .step(&mut Wall, 0.05, &[1.0; 2], 1e9)
                .unwrap()
                .is_some()
        );
    }
}

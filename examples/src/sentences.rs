//! Generated sentences with a class, in a source domain and a target domain.
//!
//! Word v adds its weights w_v, one per class, to the score of a sentence; the word after "not" subtracts them. The
//! class is drawn from the softmax of the scores, so that even the true probabilities leave an error. Half of the words
//! have other weights in the target domain. Row i of a set is a function of the set's seed and i.

use burn_bayes::Noise;

/// A sentence and its class.
#[derive(Clone, Debug, PartialEq)]
pub struct Sentence {
    /// The words, from 0.
    pub words: Vec<usize>,
    /// The class, from 0.
    pub class: usize,
    /// The true probabilities of the classes.
    pub probabilities: Vec<f64>,
}

/// Where sentences come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// The domain with many sentences.
    Source,
    /// The domain in which half of the words have other weights.
    Target,
}

/// A generator of sentences.
#[derive(Clone, Copy, Debug)]
pub struct Sentences {
    /// The domain.
    pub domain: Domain,
    /// Seed of the set; the weights of the words do not depend on it.
    pub seed: u64,
}

impl Sentences {
    /// The number of words in a sentence.
    pub const LENGTH: usize = 8;
    /// The number of different words.
    pub const WORDS: usize = 24;
    /// The number of classes.
    pub const CLASSES: usize = 4;
    /// The word that negates the next one.
    const NOT: usize = 0;

    /// The first `count` rows of the set.
    pub fn rows(self, count: usize) -> Vec<Sentence> {
        let weights: Vec<_> = (0..Self::WORDS).map(|word| self.weights(word)).collect();
        let rows = 0..count as u64;
        rows.map(|index| self.row(&weights, index)).collect()
    }

    /// The weights of a word, one per class.
    fn weights(self, word: usize) -> Vec<f64> {
        let is_other = self.domain == Domain::Target && word % 2 == 1;
        let noise = Noise::new(u64::from(is_other)).fold(word as u64);
        let weights = noise.latent(Self::CLASSES);
        let scale = if word == Self::NOT { 0.0 } else { 1.0 };
        weights
            .into_iter()
            .map(|weight| scale * f64::from(weight))
            .collect()
    }

    fn row(self, weights: &[Vec<f64>], index: u64) -> Sentence {
        let noise = Noise::new(self.seed).fold(index);
        let word = |place: usize| {
            let uniform = noise.fold(place as u64).uniform();
            (uniform * Self::WORDS as f64) as usize
        };
        let words: Vec<usize> = (0..Self::LENGTH).map(word).collect();
        let mut scores = [0.0; Self::CLASSES];
        for (place, &word) in words.iter().enumerate() {
            let is_negated = place > 0 && words[place - 1] == Self::NOT;
            let sign = if is_negated { -1.0 } else { 1.0 };
            for (score, weight) in scores.iter_mut().zip(&weights[word]) {
                *score += sign * weight;
            }
        }
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        let probabilities: Vec<f64> = scores.iter().map(|score| score.exp() / sum).collect();
        let uniform = noise.fold(Self::LENGTH as u64).uniform();
        let mut cumulative = probabilities.iter().scan(0.0, |total, probability| {
            *total += probability;
            Some(*total)
        });
        let class = cumulative.position(|total| uniform < total);
        Sentence {
            words,
            class: class.unwrap_or(Self::CLASSES - 1),
            probabilities,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_changes_half_of_the_words() {
        let of = |domain| Sentences { domain, seed: 1 };
        let (source, target) = (of(Domain::Source), of(Domain::Target));
        for word in 0..Sentences::WORDS {
            let is_same = source.weights(word) == target.weights(word);
            assert_eq!(is_same, word % 2 == 0, "{word}");
        }
        let (few, many) = (source.rows(4), source.rows(9));
        assert_eq!(few, many[..4]);
        assert_eq!(few[2].words, target.rows(4)[2].words);
    }

    #[test]
    fn classes_follow_their_probabilities() {
        let rows = Sentences {
            domain: Domain::Source,
            seed: 2,
        };
        let rows = rows.rows(4000);
        for class in 0..Sentences::CLASSES {
            let expected: f64 = rows.iter().map(|row| row.probabilities[class]).sum();
            let found = rows.iter().filter(|row| row.class == class).count() as f64;
            let variance: f64 = rows
                .iter()
                .map(|row| row.probabilities[class] * (1.0 - row.probabilities[class]))
                .sum();
            assert!((found - expected).abs() < 4.0 * variance.sqrt(), "{class}");
        }
    }
}

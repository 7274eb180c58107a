//! Algorithms that estimate a posterior over the weights of Burn models: VIFA, mean-field, SWAG.

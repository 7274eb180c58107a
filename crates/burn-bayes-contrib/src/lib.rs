#![doc = include_str!("../README.md")]

pub mod function_prior;
pub mod functional;
pub mod methods;

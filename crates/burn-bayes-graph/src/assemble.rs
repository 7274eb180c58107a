//! Sums the gradients over all uses of each parameter, in layout order.

use std::collections::BTreeMap;

use crate::layout::Layout;
use burn::tensor::{Device, IndexingUpdateOp, Int, Tensor};

use crate::factor::Term;
use crate::gradients::Block;
use crate::rules::Factored;
use crate::view::View;

/// The sum so far, by parameter.
pub(crate) struct GradientSum<'a> {
    layout: &'a Layout,
    device: Device,
    terms: Vec<Vec<Term>>,
}

impl<'a> GradientSum<'a> {
    pub(crate) fn new(layout: &'a Layout, device: Device) -> Self {
        let terms = layout.entries().iter().map(|_| Vec::new()).collect();
        Self {
            layout,
            device,
            terms,
        }
    }

    /// Adds factored gradients with respect to a view.
    pub(crate) fn add(&mut self, view: &View, gradients: Factored) {
        let len = |parameter: usize| self.layout.entries()[parameter].len();
        let shape = gradients.shape(view.len());
        let [_, rows, _] = shape;
        let view = view.reshape(&shape);
        if let Some(parameter) = view.parameter(len) {
            self.terms[parameter].push(gradients.into_term(rows));
            return;
        }
        // The gradient of a transposed weight is the outer product with its sides exchanged.
        match (view.permute(&[0, 2, 1]).parameter(len), gradients) {
            (Some(parameter), Factored::Outer(left, right)) => {
                self.terms[parameter].push(Term::outer(right, left));
            }
            (_, gradients) => self.add_rows(&view, gradients.into_term(rows).materialise()),
        }
    }

    /// Adds gradients `[M, elements]` with respect to a view.
    pub(crate) fn add_rows(&mut self, view: &View, rows: Tensor<2>) {
        let len = |parameter: usize| self.layout.entries()[parameter].len();
        if let Some(parameter) = view.parameter(len) {
            self.terms[parameter].push(Term::rows(rows));
            return;
        }
        // For each parameter: columns of the view, and the elements they show.
        let mut columns: BTreeMap<usize, (Vec<i64>, Vec<i64>)> = BTreeMap::new();
        for (column, place) in view.places().into_iter().enumerate() {
            if let Some(place) = place {
                let (from, to) = columns.entry(place.parameter).or_default();
                from.push(column as i64);
                to.push(place.element as i64);
            }
        }
        let [count, _] = rows.dims();
        for (parameter, (from, to)) in columns {
            let index = |values: Vec<i64>| Tensor::<1, Int>::from_data(&*values, &self.device);
            let values = rows.clone().select(1, index(from));
            let zeros = Tensor::zeros([count, len(parameter)], (&self.device, rows.dtype()));
            let sum = zeros.select_assign(1, index(to), values, IndexingUpdateOp::Add);
            self.terms[parameter].push(Term::rows(sum));
        }
    }

    /// Replaces a parameter's gradients by those of the per-example loop.
    pub(crate) fn replace(&mut self, parameter: usize, rows: Tensor<2>) {
        self.terms[parameter] = vec![Term::rows(rows)];
    }

    pub(crate) fn into_blocks(self) -> Vec<Block> {
        let entries = self.layout.entries().iter();
        let blocks = entries.zip(self.terms);
        blocks
            .map(|(entry, terms)| Block::new(entry.len(), terms))
            .collect()
    }
}

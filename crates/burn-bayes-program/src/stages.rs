//! Stages: passes over all rows, each of which may read the sums over rows of the ones before it.

use crate::instructions::{Buffer, Instruction, Schedule, Stage};

/// The memory of a block in bytes, of which there is as much in a core's second-level cache.
const BLOCK_BYTES: usize = 384 << 10;
/// The memory up to which a block has [`FEW_ROWS`], whose products read the weights seldom enough.
const LARGE_BLOCK_BYTES: usize = 4 << 20;
const FEW_ROWS: usize = 64;
/// A row of more memory leaves the cache in any case, and so many of them read and write sums over rows, such as the
/// gradients of a deep network, a quarter as often.
const LARGE_ROW_BYTES: usize = 1 << 20;
const ROWS_OF_LARGE: usize = 4;
/// The most rows of a block.
const MOST_ROWS: usize = 256;

/// The number of rows of a block, for so many numbers of each row.
fn rows_of_block(row_len: usize) -> usize {
    let row = (row_len * size_of::<f32>()).max(1);
    let few = match row > LARGE_ROW_BYTES {
        true => ROWS_OF_LARGE,
        false => FEW_ROWS.min(LARGE_BLOCK_BYTES / row),
    };
    (BLOCK_BYTES / row).max(few).clamp(1, MOST_ROWS)
}

/// A sum over rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSum {
    pub(crate) buffer: usize,
    /// The level that has it.
    pub(crate) level: usize,
}

/// Instructions in stages.
pub(crate) struct Staged {
    stages: Vec<Stage>,
    after: Vec<Instruction>,
    row_sums: Vec<RowSum>,
}

impl Staged {
    /// From the instructions of each level: those that are shared by rows alternate with those of rows.
    pub(crate) fn new(levels: Vec<Vec<Instruction>>, row_sums: Vec<RowSum>) -> Self {
        let mut stages = vec![Stage::default(); (levels.len() / 2).max(1)];
        let mut after = Vec::new();
        for (level, instructions) in levels.into_iter().enumerate() {
            match (stages.get_mut(level / 2), level % 2) {
                (Some(stage), 0) => stage.shared = instructions,
                (Some(stage), _) => stage.rows = instructions,
                (None, _) => after = instructions,
            }
        }
        Self {
            stages,
            after,
            row_sums,
        }
    }

    /// The schedule for these buffers.
    pub(crate) fn schedule(mut self, mut buffers: Vec<Buffer>, outputs: Vec<usize>) -> Schedule {
        let first_stages = self.first_stages(buffers.len());
        self.keep(&mut buffers, &first_stages);
        self.set_blocks(&mut buffers, &first_stages);
        let last_sums = self.place_sums();
        let stage_of = |&output: &usize| first_stages[output].unwrap_or_default();
        Schedule {
            buffers,
            stages: self.stages,
            last_sums,
            after: self.after,
            output_stages: outputs.iter().map(stage_of).collect(),
            outputs,
        }
    }

    /// The stage whose rows are the first to use each buffer.
    fn first_stages(&self, buffers: usize) -> Vec<Option<usize>> {
        let mut first = vec![None; buffers];
        for (number, stage) in self.stages.iter().enumerate() {
            for instruction in &stage.rows {
                instruction.for_buffers(&mut |buffer| {
                    first[buffer].get_or_insert(number);
                });
            }
        }
        first
    }

    /// Keeps values of rows that a later stage than their own reads.
    fn keep(&self, buffers: &mut [Buffer], first_stages: &[Option<usize>]) {
        for (number, stage) in self.stages.iter().enumerate() {
            for instruction in &stage.rows {
                instruction.for_buffers(&mut |buffer| match buffers[buffer] {
                    Buffer::Rows { len, .. } if first_stages[buffer] != Some(number) => {
                        buffers[buffer] = Buffer::Kept(len);
                    }
                    _ => {}
                });
            }
        }
    }

    fn set_blocks(&mut self, buffers: &mut [Buffer], first_stages: &[Option<usize>]) {
        for stage in &mut self.stages {
            let mut is_used = vec![false; buffers.len()];
            for instruction in &stage.rows {
                instruction.for_buffers(&mut |buffer| is_used[buffer] = true);
            }
            let used = buffers.iter().zip(is_used).filter(|(_, is_used)| *is_used);
            stage.block = rows_of_block(used.map(|(buffer, _)| buffer.row_len()).sum());
        }
        for (buffer, first) in buffers.iter_mut().zip(first_stages) {
            if let (Buffer::Rows { block, .. }, Some(stage)) = (buffer, first) {
                *block = self.stages[*stage].block;
            }
        }
    }

    /// Tells the stages which sums over rows they are the first to read. Returns those that no stage reads.
    fn place_sums(&mut self) -> Vec<usize> {
        let mut last = Vec::new();
        for &RowSum { buffer, level } in &self.row_sums {
            let ready = level / 2;
            let later = self.stages.iter().enumerate().skip(ready);
            let reading = later.map(|(number, stage)| (number, stage.uses(buffer)));
            let reading = reading.filter(|(_, is_used)| *is_used).map(|of| of.0);
            match reading.min() {
                Some(stage) => self.stages[stage].earlier_sums.push(buffer),
                None => last.push(buffer),
            }
        }
        last
    }
}

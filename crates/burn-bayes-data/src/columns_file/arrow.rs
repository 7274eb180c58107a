//! The batches of an Arrow file.
//!
//! The decoder of `arrow-ipc` allocates what headers say. Here their lengths are checked first, so that a damaged file does not
//! end the program for lack of memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, Fields};

/// The last bytes of a file: the length of the footer, and a mark.
const END: u64 = 10;

/// A file whose batches are read one after the other.
pub(super) struct Batches {
    file: File,
    length: u64,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
}

impl Batches {
    /// Reads the footer, and the dictionaries. `choose` gets all columns and returns those to read.
    pub(super) fn open(
        mut file: File,
        choose: impl FnOnce(&Fields) -> Vec<usize>,
    ) -> Result<Self, ArrowError> {
        let length = file.metadata()?.len();
        let last = length.checked_sub(END).ok_or_else(|| damaged("its end"))?;
        let end = bytes(&mut file, last, END, length)?;
        let end: [u8; END as usize] = end.try_into().map_err(|_| damaged("its end"))?;
        let size = read_footer_length(end)? as u64;
        let start = last
            .checked_sub(size)
            .ok_or_else(|| damaged("its footer"))?;
        let footer = bytes(&mut file, start, size, length)?;
        let footer = root_as_footer(&footer).map_err(|_| damaged("its footer"))?;
        let schema = footer.schema().ok_or_else(|| damaged("its schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(ArrowError::IpcError("it has another byte order".into()));
        }
        let schema = fb_to_schema(schema);
        let read = choose(schema.fields());
        let decoder = FileDecoder::new(Arc::new(schema), footer.version()).with_projection(read);
        let blocks = footer.recordBatches().into_iter().flatten().copied();
        let blocks: Vec<Block> = blocks.collect();
        let mut this = Self {
            file,
            length,
            decoder,
            blocks: blocks.into_iter(),
        };
        for block in footer.dictionaries().into_iter().flatten() {
            let bytes = this.block(block)?;
            this.decoder.read_dictionary(block, &bytes.into())?;
        }
        Ok(this)
    }

    /// The bytes of a block, in which no length exceeds what there can be.
    fn block(&mut self, block: &Block) -> Result<Vec<u8>, ArrowError> {
        let sizes = (
            u64::try_from(block.offset()),
            u64::try_from(block.metaDataLength()),
            u64::try_from(block.bodyLength()),
        );
        let (Ok(offset), Ok(head), Ok(body)) = sizes else {
            return Err(damaged("a block"));
        };
        let size = head.checked_add(body).ok_or_else(|| damaged("a block"))?;
        let bytes = bytes(&mut self.file, offset, size, self.length)?;
        check_lengths(&bytes, head as usize)?;
        Ok(bytes)
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.blocks.next()?;
        let bytes = self.block(&block);
        let batch = bytes.and_then(|bytes| self.decoder.read_record_batch(&block, &bytes.into()));
        batch.transpose()
    }
}

/// So many bytes of a file of this length.
fn bytes(file: &mut File, start: u64, size: u64, length: u64) -> Result<Vec<u8>, ArrowError> {
    let end = start.checked_add(size);
    if end.is_none_or(|end| end > length) {
        return Err(damaged("a block"));
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(start))?;
    file.take(size).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == size {
        true => Ok(bytes),
        false => Err(damaged("a block")),
    }
}

/// How many bytes zstd makes of one, at most: repetitions of a byte, in blocks.
const MOST_FOR_A_BYTE: u64 = 1 << 15;

/// Checks the lengths that compressed buffers have when they are decompressed.
fn check_lengths(block: &[u8], head: usize) -> Result<(), ArrowError> {
    const CONTINUATION: [u8; 4] = [0xff; 4];
    let skipped = match block.starts_with(&CONTINUATION) {
        true => 8,
        false => 4,
    };
    let message = block.get(skipped..).ok_or_else(|| damaged("a message"))?;
    let message = root_as_message(message).map_err(|_| damaged("a message"))?;
    let dictionary = message.header_as_dictionary_batch();
    let batch = dictionary
        .and_then(|dictionary| dictionary.data())
        .or_else(|| message.header_as_record_batch());
    let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else {
        return Ok(());
    };
    for buffer in batch.buffers().into_iter().flatten() {
        let start = head as i64 + buffer.offset();
        let start = usize::try_from(start).map_err(|_| damaged("a buffer"))?;
        let written = block.get(start..).and_then(|rest| rest.first_chunk());
        let Some(written) = written.filter(|_| buffer.length() > 0) else {
            continue;
        };
        // Minus one stands for a buffer that is not compressed.
        let length = u64::try_from(i64::from_le_bytes(*written)).unwrap_or(0);
        let most = (buffer.length() as u64).saturating_mul(MOST_FOR_A_BYTE);
        if length > most {
            return Err(damaged("the length of a buffer"));
        }
    }
    Ok(())
}

fn damaged(what: &str) -> ArrowError {
    ArrowError::ParseError(format!("{what} is damaged"))
}

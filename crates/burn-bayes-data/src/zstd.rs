//! Decompression of zstd: frames one after the other, with their checksums.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The first bytes of a zstd file.
pub(crate) const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The decompressed bytes of all frames.
pub(crate) struct Frames<R> {
    packed: R,
    decoder: FrameDecoder,
    /// Whether a frame has begun and did not end yet.
    is_inside: bool,
}

impl<R: BufRead> Frames<R> {
    pub(crate) fn new(packed: R) -> Self {
        Self {
            packed,
            decoder: FrameDecoder::new(),
            is_inside: false,
        }
    }

    /// Begins the next frame; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.packed.fill_buf()?.is_empty() {
            let Err(error) = self.decoder.reset(&mut self.packed) else {
                self.is_inside = true;
                return Ok(true);
            };
            // A skippable frame holds something for other programs.
            let FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            }) = error
            else {
                return Err(damaged(error));
            };
            let mut skipped = self.packed.by_ref().take(length.into());
            if io::copy(&mut skipped, &mut io::sink())? < length.into() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(false)
    }

    /// Checks the end of a frame.
    fn end(&mut self) -> io::Result<()> {
        self.is_inside = false;
        let written = self.decoder.get_checksum_from_data();
        if written.is_some() && written != self.decoder.get_calculated_checksum() {
            return Err(damaged("the checksum is wrong"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_inside && !self.begin()? {
                return Ok(0);
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let block = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.packed, block);
                decoded.map_err(damaged)?;
            }
            let count = self.decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            self.end()?;
        }
    }
}

/// The error of bytes that cannot be decompressed.
fn damaged(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
mod tests {
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        Frames::new(bytes).read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn all_frames_are_one_text() {
        let long = b"0123456789".repeat(100_000);
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let bytes = [packed(b"one "), skipped, packed(b""), packed(&long)].concat();
        assert_eq!(read(&bytes).unwrap(), [b"one ", &long[..]].concat());
        assert_eq!(read(b"").unwrap(), b"");
    }

    #[test]
    fn every_damage_is_an_error_or_changes_nothing() {
        let text = b"id,town\n1,Oslo\n2,Oslo\n3,Rome\n".repeat(9);
        let bytes = packed(&text);
        for end in 1..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[place] ^= 1 << bit;
                let is_other = read(&other).is_ok_and(|read| read != text);
                assert!(!is_other, "{place}");
            }
        }
    }

    #[test]
    fn the_checksum_is_checked() {
        let mut bytes = packed(b"some text");
        *bytes.last_mut().unwrap() ^= 1;
        let error = read(&bytes).unwrap_err().to_string();
        assert!(error.contains("checksum"), "{error}");
    }
}

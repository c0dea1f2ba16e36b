//! Many values in one array of bytes. Numbers are little-endian; bytes have a length of four bytes
//! before them.

use hedgerow_bindings::Failure;

/// The length that stands for no value.
pub(crate) const NONE: u32 = u32::MAX;

/// Reads values from an array.
pub(crate) struct Unpack<'a>(pub(crate) &'a [u8]);

impl<'a> Unpack<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Failure> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Failure> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Failure> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Failure> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    /// Bytes that may be absent.
    pub(crate) fn optional(&mut self) -> Result<Option<&'a [u8]>, Failure> {
        match self.u32()? {
            NONE => Ok(None),
            len => self.take(len as usize).map(Some),
        }
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Failure> {
        let text = std::str::from_utf8(self.bytes()?);
        text.map_err(|e| Failure::invalid(format!("expected UTF-8: {e}")))
    }

    /// All values until the end.
    pub(crate) fn all<T>(
        mut self,
        read: impl Fn(&mut Unpack<'a>) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        while !self.is_empty() {
            all.push(read(&mut self)?);
        }
        Ok(all)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Failure> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(|| short(N, self.0))?;
        self.0 = rest;
        Ok(*first)
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Failure> {
        let (first, rest) = self
            .0
            .split_at_checked(len)
            .ok_or_else(|| short(len, self.0))?;
        self.0 = rest;
        Ok(first)
    }
}

#[cold]
fn short(len: usize, rest: &[u8]) -> Failure {
    let message = format!(
        "expected {len} bytes of a packed value, found {}",
        rest.len()
    );
    Failure::invalid(message)
}

/// Writes values to an array.
#[derive(Default)]
pub(crate) struct Pack(pub(crate) Vec<u8>);

impl Pack {
    pub(crate) fn u8(&mut self, number: u8) -> &mut Pack {
        self.0.push(number);
        self
    }

    pub(crate) fn u32(&mut self, number: u32) -> &mut Pack {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn i64(&mut self, number: i64) -> &mut Pack {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn f64(&mut self, number: f64) -> &mut Pack {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Pack {
        self.u32(bytes.len() as u32);
        self.0.extend(bytes);
        self
    }

    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) -> &mut Pack {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.u32(NONE),
        }
    }
}

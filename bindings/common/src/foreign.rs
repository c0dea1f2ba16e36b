//! Arguments of C functions as Rust values.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, without_provenance_mut};
use std::slice;

use engine::ErrorKind;

use crate::failure::Failure;

/// An argument that C code passes by address.
pub trait Foreign {
    /// The argument in Rust.
    type Here;

    /// Reads the argument.
    ///
    /// # Errors
    /// `InvalidArgument` for NULL where the header does not allow it.
    ///
    /// # Safety
    /// The address is NULL, or the memory behind it is as the header says, until the call of the
    /// library ends. The result is not used afterwards.
    unsafe fn here(self) -> Result<Self::Here, Failure>;
}

/// Bytes: their address, which may be NULL if there are none, and their number.
#[derive(Debug, Clone, Copy)]
pub struct Bytes(pub *const c_void, pub usize);

impl Foreign for Bytes {
    type Here = &'static [u8];

    #[inline]
    unsafe fn here(self) -> Result<&'static [u8], Failure> {
        let Bytes(data, len) = self;
        if len == 0 {
            return Ok(&[]);
        }
        if data.is_null() || isize::try_from(len).is_err() {
            return Err(Failure::invalid(format!(
                "expected {len} bytes, found {data:p}"
            )));
        }
        // SAFETY: the caller promises that these bytes can be read until the call ends.
        Ok(unsafe { slice::from_raw_parts(data.cast(), len) })
    }
}

/// An array: the address of its first item, and the number of items.
#[derive(Debug, Clone, Copy)]
pub struct Items<T>(pub *const T, pub usize);

impl<T: 'static> Foreign for Items<T> {
    type Here = &'static [T];

    #[inline]
    unsafe fn here(self) -> Result<&'static [T], Failure> {
        let Items(data, len) = self;
        if len == 0 {
            return Ok(&[]);
        }
        if data.is_null() || !data.is_aligned() || len > isize::MAX as usize / size_of::<T>().max(1)
        {
            return Err(Failure::invalid(format!(
                "expected {len} items, found {data:p}"
            )));
        }
        // SAFETY: the caller promises that these items can be read until the call ends.
        Ok(unsafe { slice::from_raw_parts(data, len) })
    }
}

/// A text that ends with a zero byte, or NULL.
#[derive(Debug, Clone, Copy)]
pub struct Text(Option<&'static CStr>);

impl Text {
    /// The text; NULL is the empty one.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not UTF-8.
    pub fn read(self) -> Result<&'static str, Failure> {
        let text = self.0.unwrap_or_default();
        text.to_str().map_err(|_| {
            let found = text.to_bytes().escape_ascii();
            Failure::invalid(format!("expected a text in UTF-8, found `{found}`"))
        })
    }

    /// The text, which must not be NULL or empty.
    ///
    /// # Errors
    /// `InvalidArgument`; `what` names the argument.
    pub fn required(self, what: &str) -> Result<&'static str, Failure> {
        match self.read()? {
            "" => Err(Failure::invalid(format!("expected {what}, found nothing"))),
            text => Ok(text),
        }
    }

    /// The path, of any bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if it is NULL or empty.
    pub fn path(self) -> Result<&'static Path, Failure> {
        let bytes = self.0.unwrap_or_default().to_bytes();
        if bytes.is_empty() {
            return Err(Failure::invalid("expected a path, found nothing"));
        }
        Ok(Path::new(OsStr::from_bytes(bytes)))
    }
}

impl Foreign for *const c_char {
    type Here = Text;

    #[inline]
    unsafe fn here(self) -> Result<Text, Failure> {
        if self.is_null() {
            return Ok(Text(None));
        }
        // SAFETY: the caller promises a zero byte at the end, and that nobody changes the text.
        Ok(Text(Some(unsafe { CStr::from_ptr(self) })))
    }
}

/// A place for a result.
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Writes the result.
    pub fn set(&self, value: T) {
        // SAFETY: it was made of an address that can be written until the call ends.
        unsafe { self.0.write(value) }
    }

    /// Writes one of several results.
    ///
    /// # Safety
    /// There are places for more than `index` results.
    pub unsafe fn set_at(&self, index: usize, value: T) {
        // SAFETY: the caller's promise.
        let place = unsafe { self.0.add(index) };
        // SAFETY: the caller's promise.
        unsafe { place.write(value) }
    }
}

impl<T> Foreign for *mut T {
    type Here = Out<T>;

    #[inline]
    unsafe fn here(self) -> Result<Out<T>, Failure> {
        let place = NonNull::new(self).filter(|place| place.is_aligned());
        let place = place.ok_or_else(|| {
            Failure::invalid(format!("expected a place for a result, found {self:p}"))
        })?;
        Ok(Out(place))
    }
}

/// A place for a result that the caller may not want.
#[derive(Debug, Clone, Copy)]
pub struct Optional<T>(pub *mut T);

impl<T> Foreign for Optional<T> {
    type Here = Option<Out<T>>;

    #[inline]
    unsafe fn here(self) -> Result<Option<Out<T>>, Failure> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller keeps the same rules.
        unsafe { self.0.here() }.map(Some)
    }
}

/// The address of an argument that may be absent, or NULL.
#[derive(Debug, Clone, Copy)]
pub struct IfAny<T>(pub *const T);

impl<T: Foreign + Copy> Foreign for IfAny<T> {
    type Here = Option<T::Here>;

    #[inline]
    unsafe fn here(self) -> Result<Option<T::Here>, Failure> {
        if self.0.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller promises that the argument can be read.
        let argument = unsafe { self.0.read() };
        // SAFETY: the caller keeps the same rules.
        unsafe { argument.here() }.map(Some)
    }
}

/// A buffer for bytes: its address and its size.
#[derive(Debug, Clone, Copy)]
pub struct Buffer(pub *mut c_void, pub usize);

/// A buffer that is filled from its beginning.
pub struct Room<'a> {
    at: *mut u8,
    left: usize,
    entries: usize,
    _lives: PhantomData<&'a mut [u8]>,
}

impl Room<'_> {
    /// The bytes that it still has room for.
    pub fn left(&self) -> usize {
        self.left
    }

    /// The entries that were added.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Adds bytes. Returns false if there is no room for them.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > self.left {
            return false;
        }
        // SAFETY: there is room.
        unsafe { self.copy([bytes]) };
        true
    }

    /// Adds an entry: the lengths of its key and its value, four bytes each, little-endian; the
    /// key; the value. Both are shorter than 4 GiB. Returns false if there is no room for it.
    #[inline]
    pub fn push_entry(&mut self, key: &[u8], value: &[u8]) -> bool {
        if entry_bytes(key, value) > self.left {
            return false;
        }
        let head = key.len() as u64 | (value.len() as u64) << 32;
        // SAFETY: there is room for all three parts.
        unsafe { self.copy([&head.to_le_bytes(), key, value]) };
        self.entries += 1;
        true
    }

    /// # Safety
    /// There is room for the parts.
    #[inline]
    unsafe fn copy<const PARTS: usize>(&mut self, parts: [&[u8]; PARTS]) {
        let mut at = self.at;
        for part in parts {
            // SAFETY: the buffer has room for them. It is the caller's, so the engine's memory is
            // apart from it.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), at, part.len()) };
            at = at.wrapping_add(part.len());
        }
        self.left -= at.addr() - self.at.addr();
        self.at = at;
    }
}

/// The bytes of an entry in a buffer.
#[inline]
pub fn entry_bytes(key: &[u8], value: &[u8]) -> usize {
    size_of::<u64>() + key.len() + value.len()
}

impl Foreign for Buffer {
    type Here = Room<'static>;

    #[inline]
    unsafe fn here(self) -> Result<Room<'static>, Failure> {
        let Buffer(data, len) = self;
        if len > 0 && data.is_null() || isize::try_from(len).is_err() {
            return Err(Failure::invalid(format!(
                "expected room for {len} bytes, found {data:p}"
            )));
        }
        Ok(Room {
            at: data.cast(),
            left: len,
            entries: 0,
            _lives: PhantomData,
        })
    }
}

macro_rules! tuples {
    ($(($($name:ident)*))*) => {$(
        impl<$($name: Foreign),*> Foreign for ($($name,)*) {
            type Here = ($($name::Here,)*);

            #[allow(non_snake_case, reason = "the variables are named as their types")]
            #[inline]
            unsafe fn here(self) -> Result<Self::Here, Failure> {
                let ($($name,)*) = self;
                // SAFETY: the caller keeps the rules for each of them.
                $(let $name = unsafe { $name.here() }?;)*
                Ok(($($name,)*))
            }
        }
    )*};
}

tuples!(()(A)(A B)(A B C)(A B C D)(A B C D E));

/// A copy of bytes in memory of `malloc`, with a zero byte behind them. It is freed unless C code
/// gets it.
#[derive(Debug)]
pub struct MallocCopy(NonNull<u8>);

impl MallocCopy {
    /// Copies bytes.
    ///
    /// # Errors
    /// `NoSpace` if there is no memory.
    #[inline]
    pub fn of(bytes: &[u8]) -> Result<MallocCopy, Failure> {
        // SAFETY: any size may be asked for.
        let memory = unsafe { libc::malloc(bytes.len() + 1) };
        let memory = NonNull::new(memory.cast::<u8>()).ok_or_else(|| no_memory(bytes.len()))?;
        // SAFETY: the new memory has room for the bytes, and is apart from them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr(), bytes.len()) };
        // SAFETY: there is room for one byte more.
        unsafe { memory.as_ptr().wrapping_add(bytes.len()).write(0) };
        Ok(MallocCopy(memory))
    }

    /// The address of the copy, which C code frees.
    #[inline]
    pub fn give(self) -> *mut c_char {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }
}

impl Drop for MallocCopy {
    fn drop(&mut self) {
        // SAFETY: it is memory of `malloc`, of which nobody else has the address.
        unsafe { libc::free(self.0.as_ptr().cast()) };
    }
}

#[cold]
fn no_memory(bytes: usize) -> Failure {
    let message = format!("expected memory for {bytes} bytes, found none");
    Failure::new(ErrorKind::NoSpace, message)
}

/// The number in a pointer that C code holds.
pub fn number<T>(handle: *const T) -> u64 {
    handle.addr() as u64
}

/// The pointer that C code holds for a handle; 0 is NULL.
pub fn pointer<T>(handle: u64) -> *mut T {
    without_provenance_mut(handle as usize)
}

/// Defines types of which C code has pointers only, which are handles.
#[macro_export]
macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[doc = concat!("A handle, `", stringify!($name), "*` in C.")]
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}

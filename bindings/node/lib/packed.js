'use strict'

// Keys and values packed in one buffer, in both directions. src/packed.rs has the format.

const ModuleError = require('module-error')

const KEY_BYTES_MAX = 65536
const VALUE_BYTES_MAX = 67108864
// The first buffer of a packer, and the largest that it keeps.
const BUFFER_BYTES = 16384
const KEPT_BYTES_MAX = 1048576
// Up to this length a loop writes a string faster than a call of native code does.
const LOOP_LENGTH_MAX = 24

class Packer {
  #first = Buffer.allocUnsafeSlow(BUFFER_BYTES)
  buffer = this.#first
  length = 0

  // A view of what was packed. It is valid until something else is packed.
  get packed () {
    return this.buffer.subarray(0, this.length)
  }

  clear () {
    this.length = 0
    if (this.buffer.length > KEPT_BYTES_MAX) this.buffer = this.#first
    return this
  }

  // Makes room for so many more bytes.
  reserve (bytes) {
    const wanted = this.length + bytes
    if (wanted <= this.buffer.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(wanted, this.buffer.length * 2))
    this.buffer.copy(larger, 0, 0, this.length)
    this.buffer = larger
  }

  byte (byte) {
    this.reserve(1)
    this.buffer[this.length++] = byte
    return this
  }

  number (number) {
    this.reserve(4)
    this.length = this.buffer.writeUInt32LE(number, this.length)
    return this
  }

  double (double) {
    this.reserve(8)
    this.length = this.buffer.writeDoubleLE(double, this.length)
    return this
  }

  // Packs a string or bytes without their length. Returns the length.
  raw (data) {
    if (typeof data === 'string') {
      // A unit of UTF-16 has at most 3 bytes in UTF-8.
      this.reserve(data.length * 3)
      const written = writeUtf8(this.buffer, data, this.length)
      this.length += written
      return written
    }
    this.reserve(data.byteLength)
    this.buffer.set(data, this.length)
    this.length += data.byteLength
    return data.byteLength
  }

  bytes (data) {
    const at = this.length
    this.number(0)
    const length = this.raw(data)
    this.buffer.writeUInt32LE(length, at)
    return length
  }

  key (key) {
    if (this.bytes(key) > KEY_BYTES_MAX) {
      throw new ModuleError(`Key must have at most ${KEY_BYTES_MAX} bytes`, {
        code: 'LEVEL_INVALID_KEY'
      })
    }
    return this
  }

  value (value) {
    if (this.bytes(value) > VALUE_BYTES_MAX) {
      throw new ModuleError(`Value must have at most ${VALUE_BYTES_MAX} bytes`, {
        code: 'LEVEL_INVALID_VALUE'
      })
    }
    return this
  }

  keys (keys) {
    for (let i = 0; i < keys.length; i++) this.key(keys[i])
    return this
  }

  // Packs the range of range options.
  range ({ gte, gt, lte, lt }) {
    this.#bound(gte, gt)
    this.#bound(lte, lt)
    return this
  }

  #bound (inclusive, exclusive) {
    if (inclusive !== undefined) this.byte(1).key(inclusive)
    else if (exclusive !== undefined) this.byte(2).key(exclusive)
    else this.byte(0)
  }
}

function writeUtf8 (buffer, string, at) {
  const length = string.length
  if (length <= LOOP_LENGTH_MAX) {
    let i = 0
    for (; i < length; i++) {
      const unit = string.charCodeAt(i)
      if (unit > 127) break
      buffer[at + i] = unit
    }
    if (i === length) return length
  }
  return buffer.utf8Write(string, at)
}

// The bytes from one place of a buffer to another: a string, or a view of the buffer.
function unpack (buffer, from, to, asString) {
  return asString ? buffer.utf8Slice(from, to) : buffer.subarray(from, to)
}

// The packed values, undefined for those that are absent.
function unpackValues (buffer, count, asStrings) {
  const values = new Array(count)
  let at = 0
  for (let i = 0; i < count; i++) {
    const length = buffer.readUInt32LE(at)
    at += 4
    values[i] = length === 0 ? undefined : unpack(buffer, at, at + length - 1, asStrings)
    if (length > 0) at += length - 1
  }
  return values
}

// For each packed value whether it is there.
function unpackPresence (buffer, count) {
  const presence = new Array(count)
  for (let i = 0; i < count; i++) presence[i] = buffer[i * 4] !== 0
  return presence
}

// For what native code copies before its function returns.
const scratch = new Packer()

module.exports = { Packer, scratch, unpack, unpackValues, unpackPresence }

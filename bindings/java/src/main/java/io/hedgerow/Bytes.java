package io.hedgerow;

import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Immutable bytes, compared as a keyspace orders its keys: unsigned, the first difference counts.
 */
public final class Bytes implements Comparable<Bytes>, Serializable {
    private static final long serialVersionUID = 1;

    /** No bytes, the first of all. */
    public static final Bytes EMPTY = new Bytes(new byte[0]);

    private final byte[] bytes;

    private Bytes(byte[] bytes) {
        this.bytes = bytes;
    }

    /** A copy of these bytes. */
    public static Bytes of(byte... bytes) {
        return new Bytes(bytes.clone());
    }

    /** The text in UTF-8. */
    public static Bytes utf8(String text) {
        return new Bytes(text.getBytes(StandardCharsets.UTF_8));
    }

    /** The remaining bytes of a buffer, whose position stays. */
    public static Bytes of(ByteBuffer buffer) {
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return new Bytes(copy);
    }

    /** Bytes that nobody changes any more. */
    static Bytes wrap(byte[] bytes) {
        return bytes == null ? null : new Bytes(bytes);
    }

    /** The bytes themselves, which the caller must not change. */
    byte[] array() {
        return bytes;
    }

    /** A copy of the bytes. */
    public byte[] toArray() {
        return bytes.clone();
    }

    /** The bytes as a buffer that cannot be written to. */
    public ByteBuffer toBuffer() {
        return ByteBuffer.wrap(bytes).asReadOnlyBuffer();
    }

    /** The bytes read as UTF-8. */
    public String toUtf8() {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    /** The number of bytes. */
    public int length() {
        return bytes.length;
    }

    /** The byte at an index from 0. */
    public byte at(int index) {
        return bytes[index];
    }

    /** Returns true if these bytes begin with others. */
    public boolean startsWith(Bytes prefix) {
        int length = prefix.bytes.length;
        return length <= bytes.length
                && Arrays.equals(bytes, 0, length, prefix.bytes, 0, length);
    }

    @Override
    public int compareTo(Bytes other) {
        return Arrays.compareUnsigned(bytes, other.bytes);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Bytes && Arrays.equals(bytes, ((Bytes) other).bytes);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(bytes);
    }

    /** Printable ASCII as it is, other bytes as {@code \x00}. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder(bytes.length);
        for (byte b : bytes) {
            if (b >= ' ' && b < 0x7f && b != '\\') {
                text.append((char) b);
            } else {
                text.append(String.format("\\x%02x", b));
            }
        }
        return text.toString();
    }
}

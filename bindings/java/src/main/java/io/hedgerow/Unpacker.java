package io.hedgerow;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Reads values that the native library has packed. */
final class Unpacker {
    private final byte[] array;
    private int at;

    Unpacker(byte[] array) {
        this.array = array;
    }

    boolean hasNext() {
        return at < array.length;
    }

    int position() {
        return at;
    }

    void moveTo(int position) {
        at = position;
    }

    byte nextByte() {
        return array[at++];
    }

    int nextInt() {
        at += Integer.BYTES;
        return (int) Packer.INT.get(array, at - Integer.BYTES);
    }

    long nextLong() {
        at += Long.BYTES;
        return (long) Packer.LONG.get(array, at - Long.BYTES);
    }

    /** Bytes with their length before them; null for none. */
    byte[] nextBytes() {
        int length = nextInt();
        return length < 0 ? null : next(length);
    }

    /** The next bytes. */
    byte[] next(int length) {
        at += length;
        return Arrays.copyOfRange(array, at - length, at);
    }

    String nextText() {
        return new String(nextBytes(), StandardCharsets.UTF_8);
    }
}

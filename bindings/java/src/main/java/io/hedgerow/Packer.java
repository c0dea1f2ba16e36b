package io.hedgerow;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Values one after another in an array, as the native library reads them. */
final class Packer {
    static final VarHandle INT =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    static final VarHandle LONG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    /** The longest array that every Java machine can make. */
    private static final int BYTES_MAX = Integer.MAX_VALUE - 8;

    byte[] array;
    int length;

    Packer(int capacity) {
        array = new byte[capacity];
    }

    Packer add(byte number) {
        reserve(1);
        array[length++] = number;
        return this;
    }

    Packer add(long number) {
        reserve(Long.BYTES);
        LONG.set(array, length, number);
        length += Long.BYTES;
        return this;
    }

    Packer add(byte[] bytes) {
        reserve((long) Integer.BYTES + bytes.length);
        INT.set(array, length, bytes.length);
        System.arraycopy(bytes, 0, array, length + Integer.BYTES, bytes.length);
        length += Integer.BYTES + bytes.length;
        return this;
    }

    /** Adds bytes, or null. */
    Packer addOptional(byte[] bytes) {
        if (bytes != null) {
            return add(bytes);
        }
        reserve(Integer.BYTES);
        INT.set(array, length, -1);
        length += Integer.BYTES;
        return this;
    }

    Packer add(String text) {
        return add(text.getBytes(StandardCharsets.UTF_8));
    }

    byte[] toArray() {
        return Arrays.copyOf(array, length);
    }

    private void reserve(long bytes) {
        long wanted = length + bytes;
        if (wanted > BYTES_MAX) {
            throw new IllegalArgumentException(
                    "expected at most " + BYTES_MAX + " bytes of packed values, found " + wanted);
        }
        if (wanted > array.length) {
            array = Arrays.copyOf(array, (int) Math.min(Math.max(wanted, 2L * array.length), BYTES_MAX));
        }
    }
}

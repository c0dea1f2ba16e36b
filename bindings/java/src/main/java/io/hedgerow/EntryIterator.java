package io.hedgerow;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;

/**
 * The entries of a range as they were when it was opened. Many cross from native code at a time:
 * the first block is small, so that the first entries of a range cost little.
 *
 * <p>One that is read to its end needs no closing. Until then it keeps the memory and the files
 * that it reads. For one thread at a time.
 */
public final class EntryIterator implements Iterator<Entry>, AutoCloseable {
    private static final int BLOCK_BYTES_FIRST = 4 << 10;
    private static final int BLOCK_BYTES_MAX = 64 << 10;
    private static final int HEAD_BYTES = 2 * Integer.BYTES;

    private byte[] block;
    private int at;
    private int blockBytes = BLOCK_BYTES_FIRST;
    /** The rest of the scan; null if the block is the last one. */
    private Ref rest;

    private boolean closed;

    /**
     * The source of the entries. It keeps the database open; null if there is nothing behind the
     * block.
     */
    private final ReadView view;

    private EntryIterator(ReadView view, byte[] block) {
        this.view = view;
        this.block = block;
        at = Long.BYTES;
        long handle = (long) Packer.LONG.get(block, 0);
        rest = handle == 0 ? null : new Ref(this, Ref.ITERATOR, handle);
    }

    static EntryIterator open(ReadView view, KeyRange range) {
        return new EntryIterator(view, view.scan(range, BLOCK_BYTES_FIRST));
    }

    /** The entries of one block, behind its head. */
    static EntryIterator of(byte[] block) {
        return new EntryIterator(null, block);
    }

    /**
     * Returns true if there is another entry.
     *
     * @throws IllegalStateException if the iterator, or its database, was closed
     * @throws HedgerowException if the next entries cannot be read
     */
    @Override
    public boolean hasNext() {
        if (closed) {
            throw new IllegalStateException("the iterator is closed");
        }
        while (at == block.length && rest != null) {
            fill();
        }
        return at < block.length;
    }

    private void fill() {
        blockBytes = Math.min(4 * blockBytes, BLOCK_BYTES_MAX);
        block = next0(rest.get(), blockBytes);
        at = Long.BYTES;
        if ((long) Packer.LONG.get(block, 0) == 0) {
            rest.forget();
            rest = null;
        }
    }

    @Override
    public Entry next() {
        byte[] key = peekKey();
        int valueAt = at + HEAD_BYTES + key.length;
        int length = (int) Packer.INT.get(block, at + Integer.BYTES);
        if (length < 0) {
            at = valueAt;
            return new Entry(key, null);
        }
        at = valueAt + length;
        return new Entry(key, Arrays.copyOfRange(block, valueAt, at));
    }

    /** The key of the next entry, which stays the next one. */
    public byte[] peekKey() {
        if (!hasNext()) {
            throw new NoSuchElementException("the range has no more entries");
        }
        int length = (int) Packer.INT.get(block, at);
        return Arrays.copyOfRange(block, at + HEAD_BYTES, at + HEAD_BYTES + length);
    }

    /** Reads the remaining entries. */
    public List<Entry> toList() {
        List<Entry> entries = new ArrayList<>();
        forEachRemaining(entries::add);
        return entries;
    }

    /** Ends the iterator, and gives back what it keeps. */
    @Override
    public void close() {
        closed = true;
        if (rest != null) {
            rest.close();
        }
    }

    private native byte[] next0(long handle, int bytesMax);
}

package org.apache.kafka.streams.state.internals;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;

/**
 * A range of a store of ours that is RocksDB's iterator by its class alone: it calls nothing of
 * RocksDB. It is in this package because only this package sees the superclass. See {@code
 * RocksDbRanges}.
 */
final class HedgerowRangeIterator extends RocksDbIterator {
    private final KeyValueIterator<Bytes, byte[]> entries;
    private Runnable onClose = () -> {};

    HedgerowRangeIterator(KeyValueIterator<Bytes, byte[]> entries) {
        super("", null, true);
        this.entries = entries;
    }

    @Override
    public boolean hasNext() {
        return entries.hasNext();
    }

    @Override
    public KeyValue<Bytes, byte[]> next() {
        return entries.next();
    }

    @Override
    public Bytes peekNextKey() {
        return entries.peekNextKey();
    }

    @Override
    public void onClose(Runnable onClose) {
        this.onClose = onClose;
    }

    @Override
    public void close() {
        onClose.run();
        entries.close();
    }
}

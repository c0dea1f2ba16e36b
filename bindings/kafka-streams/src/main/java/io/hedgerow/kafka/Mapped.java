package io.hedgerow.kafka;

import java.util.function.Function;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.WindowStoreIterator;

/** Entries under other keys, which are read from the stored ones. */
class Mapped<K> implements KeyValueIterator<K, byte[]> {
    private final KeyValueIterator<Bytes, byte[]> entries;
    private final Function<byte[], K> key;

    Mapped(KeyValueIterator<Bytes, byte[]> entries, Function<byte[], K> key) {
        this.entries = entries;
        this.key = key;
    }

    /** The windows of one key by their start. */
    static final class Windows extends Mapped<Long> implements WindowStoreIterator<byte[]> {
        Windows(KeyValueIterator<Bytes, byte[]> entries) {
            super(entries, SegmentKeys.WINDOW::time);
        }
    }

    @Override
    public boolean hasNext() {
        return entries.hasNext();
    }

    @Override
    public K peekNextKey() {
        return key.apply(entries.peekNextKey().get());
    }

    @Override
    public KeyValue<K, byte[]> next() {
        KeyValue<Bytes, byte[]> entry = entries.next();
        return KeyValue.pair(key.apply(entry.key.get()), entry.value);
    }

    @Override
    public void close() {
        entries.close();
    }
}

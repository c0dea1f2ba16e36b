package io.hedgerow.kafka;

import io.hedgerow.KeyRange;
import java.util.NoSuchElementException;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.state.KeyValueIterator;

/** Ranges of stores, which have both ends in them. */
final class Ranges {
    /** Streams' own words, which its users look for in logs. */
    static final String INVALID =
            "Returning empty iterator for fetch with invalid key range: from > to. "
                    + "This may be due to range arguments set in the wrong order, "
                    + "or serdes that don't preserve ordering when lexicographically comparing the serialized bytes. "
                    + "Note that the built-in numerical serdes do not follow this for negative numbers";

    private Ranges() {}

    /** The keys between two, both included; null is no end. */
    static KeyRange of(Bytes from, Bytes to) {
        KeyRange range = from == null ? KeyRange.all() : KeyRange.from(from.get());
        return to == null ? range : range.through(to.get());
    }

    /** No entries. */
    static <K> KeyValueIterator<K, byte[]> empty() {
        return new KeyValueIterator<>() {
            @Override
            public boolean hasNext() {
                return false;
            }

            @Override
            public KeyValue<K, byte[]> next() {
                throw new NoSuchElementException();
            }

            @Override
            public K peekNextKey() {
                throw new NoSuchElementException();
            }

            @Override
            public void close() {}
        };
    }
}

package org.apache.kafka.streams.state.internals;

import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** A supplier of window stores that stands in front of one of ours, under a name of Streams. */
abstract class ShadowWindowSupplier
        extends Shadow<WindowBytesStoreSupplier, WindowStore<Bytes, byte[]>>
        implements WindowBytesStoreSupplier {
    ShadowWindowSupplier(WindowBytesStoreSupplier ours) {
        super(ours);
    }

    @Override
    public long segmentIntervalMs() {
        return ours.segmentIntervalMs();
    }

    @Override
    public long windowSize() {
        return ours.windowSize();
    }

    @Override
    public boolean retainDuplicates() {
        return ours.retainDuplicates();
    }

    @Override
    public long retentionPeriod() {
        return ours.retentionPeriod();
    }
}

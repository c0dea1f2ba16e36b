package org.apache.kafka.streams.state.internals;

import io.hedgerow.kafka.Hedgerow;
import java.time.Duration;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;

/** In place of the class of this name. */
public class RocksDbWindowBytesStoreSupplier extends ShadowWindowSupplier {
    public enum WindowStoreTypes {
        DEFAULT_WINDOW_STORE,
        TIMESTAMPED_WINDOW_STORE,
        TIMESTAMPED_WINDOW_STORE_WITH_HEADERS
    }

    public RocksDbWindowBytesStoreSupplier(
            String name,
            long retention,
            long segmentInterval,
            long size,
            boolean retainDuplicates,
            WindowStoreTypes type) {
        super(ours(name, Duration.ofMillis(retention), Duration.ofMillis(size), retainDuplicates, type));
    }

    private static WindowBytesStoreSupplier ours(
            String name, Duration retention, Duration size, boolean duplicates, WindowStoreTypes type) {
        switch (type) {
            case TIMESTAMPED_WINDOW_STORE_WITH_HEADERS:
                return Hedgerow.windowStoreWithHeaders(name, retention, size, duplicates);
            case TIMESTAMPED_WINDOW_STORE:
                return Hedgerow.timestampedWindowStore(name, retention, size, duplicates);
            default:
                return Hedgerow.windowStore(name, retention, size, duplicates);
        }
    }
}

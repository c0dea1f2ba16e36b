package io.hedgerow.kafka;

import java.time.Duration;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.DslStoreFormat;
import org.apache.kafka.streams.state.HeadersBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowBytesStoreSupplier;
import org.apache.kafka.streams.state.WindowStore;

/** Supplies window stores. */
class WindowSupplier extends Supplier<WindowStore<Bytes, byte[]>>
        implements WindowBytesStoreSupplier {
    private final DslStoreFormat format;
    private final long retention;
    private final long size;
    private final boolean retainDuplicates;
    private final boolean timeIndexed;

    private WindowSupplier(
            String name,
            DslStoreFormat format,
            Duration retention,
            Duration size,
            boolean retainDuplicates,
            boolean timeIndexed) {
        super(name);
        this.format = format;
        this.retention = millis(retention, "retentionPeriod");
        this.size = millis(size, "windowSize");
        this.retainDuplicates = retainDuplicates;
        this.timeIndexed = timeIndexed;
        if (this.size > this.retention) {
            throw new IllegalArgumentException(
                    "The retention period of the window store " + name
                            + " must be no smaller than its window size. Got size=[" + size
                            + "], retention=[" + retention + "]");
        }
    }

    /** Streams asks the supplier, too, whether values have headers. */
    private static final class WithHeaders extends WindowSupplier implements HeadersBytesStoreSupplier {
        WithHeaders(
                String name,
                Duration retention,
                Duration size,
                boolean retainDuplicates,
                boolean timeIndexed) {
            super(name, DslStoreFormat.HEADERS, retention, size, retainDuplicates, timeIndexed);
        }
    }

    /**
     * A supplier.
     *
     * @param timeIndexed true if windows of a short time are found without reading the others
     */
    static WindowSupplier of(
            String name,
            DslStoreFormat format,
            Duration retention,
            Duration size,
            boolean retainDuplicates,
            boolean timeIndexed) {
        return format == DslStoreFormat.HEADERS
                ? new WithHeaders(name, retention, size, retainDuplicates, timeIndexed)
                : new WindowSupplier(name, format, retention, size, retainDuplicates, timeIndexed);
    }

    @Override
    public WindowStore<Bytes, byte[]> get() {
        switch (format) {
            case HEADERS:
                return new HedgerowWindowStore.WithHeaders(this);
            case TIMESTAMPED:
                return new HedgerowWindowStore.Timestamped(this);
            default:
                return new HedgerowWindowStore(this);
        }
    }

    @Override
    public long segmentIntervalMs() {
        return segmentInterval(retention);
    }

    @Override
    public long windowSize() {
        return size;
    }

    @Override
    public boolean retainDuplicates() {
        return retainDuplicates;
    }

    @Override
    public long retentionPeriod() {
        return retention;
    }

    boolean isTimeIndexed() {
        return timeIndexed;
    }
}

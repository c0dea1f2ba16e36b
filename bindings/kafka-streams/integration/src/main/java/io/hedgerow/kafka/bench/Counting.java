package io.hedgerow.kafka.bench;

import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.internals.metrics.StreamsMetricsImpl;
import org.apache.kafka.streams.processor.internals.metrics.ThreadMetrics;

/** Counts the records that an application processes, and keeps the time of a stretch of them. */
final class Counting {
    private final AtomicLong processed = new AtomicLong();
    /**
     * Milliseconds of the commits of a thread's tasks, divided by the tasks, as Streams measures
     * it.
     */
    final Latencies commits = new Latencies();

    private volatile long first;
    private volatile long last = Long.MAX_VALUE;
    private volatile long beganAt;
    private volatile long endedAt;

    long processed() {
        return processed.get();
    }

    /** Begins a stretch with the next record, which ends with the record of a number. */
    void stretch(long last) {
        commits.clear();
        TimedCommits.MICROS.clear();
        first = processed.get() + 1;
        beganAt = 0;
        endedAt = 0;
        this.last = last;
    }

    /** The nanoseconds from the first to the last record of the stretch; 0 before its end. */
    long nanos() {
        return endedAt == 0 ? 0 : endedAt - beganAt;
    }

    private void count() {
        long number = processed.incrementAndGet();
        if (number == first) {
            beganAt = System.nanoTime();
        }
        if (number == last) {
            endedAt = System.nanoTime();
        }
    }

    FixedKeyProcessor<byte[], byte[], byte[]> processor() {
        return new FixedKeyProcessor<>() {
            private FixedKeyProcessorContext<byte[], byte[]> context;

            @Override
            public void init(FixedKeyProcessorContext<byte[], byte[]> context) {
                this.context = context;
                StreamsMetricsImpl metrics = (StreamsMetricsImpl) context.metrics();
                String thread = Thread.currentThread().getName();
                // A sensor takes a metric of one name once, so a thread's tasks add one together.
                ThreadMetrics.commitSensor(thread, metrics)
                        .add(
                                new MetricName("commits", "bench", "", Map.of("thread", thread)),
                                commits);
            }

            @Override
            public void process(FixedKeyRecord<byte[], byte[]> record) {
                count();
                context.forward(record);
            }
        };
    }
}

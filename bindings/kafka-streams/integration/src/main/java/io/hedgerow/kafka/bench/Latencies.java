package io.hedgerow.kafka.bench;

import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.metrics.MeasurableStat;
import org.apache.kafka.common.metrics.MetricConfig;

/** All values of a sensor, for their percentiles. */
final class Latencies implements MeasurableStat {
    private double[] values = new double[1024];
    private int count;

    synchronized void add(double value) {
        if (count == values.length) {
            values = Arrays.copyOf(values, 2 * count);
        }
        values[count++] = value;
    }

    synchronized void clear() {
        count = 0;
    }

    @Override
    public void record(MetricConfig config, double value, long now) {
        add(value);
    }

    @Override
    public synchronized double measure(MetricConfig config, long now) {
        return count;
    }

    /** The count and the percentiles, as {@code <prefix>_p999}; nothing if there are no values. */
    synchronized Map<String, Object> row(String prefix) {
        Map<String, Object> row = new TreeMap<>();
        if (count > 0) {
            double[] sorted = Arrays.copyOf(values, count);
            Arrays.sort(sorted);
            row.put(prefix + "_count", count);
            row.put(prefix + "_p50", at(sorted, 0.5));
            row.put(prefix + "_p99", at(sorted, 0.99));
            row.put(prefix + "_p999", at(sorted, 0.999));
            row.put(prefix + "_max", at(sorted, 1));
        }
        return row;
    }

    /** The smallest value that a share of the values is not above. */
    private static double at(double[] sorted, double share) {
        double value = sorted[Math.max(0, (int) Math.ceil(share * sorted.length) - 1)];
        return Math.round(value * 1000) / 1000.0;
    }
}

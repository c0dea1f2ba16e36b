package io.hedgerow;

import java.util.LinkedHashMap;
import java.util.Map;

/** Statistics that the native library has packed. */
final class Stats {
    private Stats() {}

    static Map<String, Object> unpack(byte[] packed) {
        Map<String, Object> stats = new LinkedHashMap<>();
        for (Unpacker values = new Unpacker(packed); values.hasNext(); ) {
            stats.put(values.nextText(), value(values));
        }
        return stats;
    }

    private static Object value(Unpacker values) {
        switch (values.nextByte()) {
            case 0:
                return values.nextLong();
            case 1:
                return Double.longBitsToDouble(values.nextLong());
            case 2:
                return values.nextText();
            default:
                return values.nextByte() != 0;
        }
    }
}

package io.hedgerow.kafka.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Numbers and texts by their names, which a process hands to another one as its arguments. */
final class Settings {
    private final Map<String, String> values;

    Settings(Map<String, String> values) {
        this.values = new TreeMap<>(values);
    }

    /** From arguments {@code name=value}. */
    static Settings parse(String... arguments) {
        Map<String, String> values = new TreeMap<>();
        for (String argument : arguments) {
            int at = argument.indexOf('=');
            if (at < 0) {
                throw new IllegalArgumentException("expected name=value, found " + argument);
            }
            values.put(argument.substring(0, at), argument.substring(at + 1));
        }
        return new Settings(values);
    }

    String[] arguments() {
        List<String> arguments = new ArrayList<>();
        values.forEach((name, value) -> arguments.add(name + "=" + value));
        return arguments.toArray(String[]::new);
    }

    /** These settings with others, which hold where both have one. */
    Settings with(Map<String, String> others) {
        Map<String, String> all = new TreeMap<>(values);
        all.putAll(others);
        return new Settings(all);
    }

    /** These settings with another one. */
    Settings with(String name, Object value) {
        return with(Map.of(name, value.toString()));
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("expected one of " + values.keySet() + ", found " + name);
        }
        return value;
    }

    long number(String name) {
        try {
            return Long.parseLong(text(name));
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(
                    "expected a number for " + name + ", found " + text(name), e);
        }
    }

    boolean isOn(String name) {
        return number(name) != 0;
    }

    /** All settings, numbers as numbers. */
    Map<String, Object> row() {
        Map<String, Object> row = new TreeMap<>();
        values.forEach((name, value) ->
                row.put(name, value.matches("\\d{1,18}") ? Long.valueOf(value) : value));
        return row;
    }
}

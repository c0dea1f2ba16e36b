package io.hedgerow;

/** The kinds of expiry, as the native library reads them. */
final class Expiry {
    static final int NEVER = 0;
    static final int AT = 1;
    static final int AFTER = 2;

    private Expiry() {}
}

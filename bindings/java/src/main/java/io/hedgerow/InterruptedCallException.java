package io.hedgerow;

/**
 * The thread was interrupted while it waited for a long call. Its interrupted status is set again.
 * The call ends in the background; one that can be cancelled ends soon. A write that waited for
 * memory does not begin.
 */
public class InterruptedCallException extends HedgerowException {
    private static final long serialVersionUID = 1;

    InterruptedCallException(InterruptedException cause) {
        super("the thread was interrupted while it waited; a call that has begun ends in the background", cause);
    }
}

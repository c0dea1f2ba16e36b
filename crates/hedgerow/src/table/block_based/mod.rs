mod block;
mod footer;

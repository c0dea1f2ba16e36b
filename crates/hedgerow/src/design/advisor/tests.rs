//! The reference outputs of the model's specification, and rules that hold for any tree.

mod reference;
mod rules;

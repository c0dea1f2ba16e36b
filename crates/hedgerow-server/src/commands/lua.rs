//! The commands of scripts, which are refused without Lua.

#[cfg(feature = "lua")]
mod with {
    use super::super::{Run, Special, scripts};

    pub(crate) const EVAL: Run = Run::Data(scripts::eval);
    pub(crate) const EVALSHA: Run = Run::Data(scripts::evalsha);
    pub(crate) const FCALL: Run = Run::Data(scripts::fcall);
    pub(crate) const SCRIPT: Run = Run::Session(scripts::script);
    pub(crate) const FUNCTION: Run = Run::Connection(Special::Function);
}

#[cfg(not(feature = "lua"))]
mod without {
    use super::super::Run;

    pub(crate) const EVAL: Run = Run::Refused;
    pub(crate) const EVALSHA: Run = Run::Refused;
    pub(crate) const FCALL: Run = Run::Refused;
    pub(crate) const SCRIPT: Run = Run::Refused;
    pub(crate) const FUNCTION: Run = Run::Refused;
}

#[cfg(feature = "lua")]
pub(super) use with::*;
#[cfg(not(feature = "lua"))]
pub(super) use without::*;

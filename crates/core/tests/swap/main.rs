//! Named locks on an engine in memory: which change each decision becomes, and what it withstands.

mod layout;
mod rows;
mod settling;
mod world;

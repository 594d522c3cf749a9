mod innocent;
mod planted;
mod sentences;

//! The tables of a config file that belong to single layers, made from the table of [`layers`](crate::layers).

use serde::Deserialize;

use super::Settings;
use crate::layer_spec::{LayerInputs, LayerTable};

/// Declares a struct that has, after its own fields, a field for each table of a built-in layer.
///
/// The fields are written out instead of flattened: serde loses the line of an error in what it flattens.
#[doc(hidden)]
#[macro_export]
macro_rules! with_layer_tables {
    ($($input:tt)*) => { $crate::layers!($crate::struct_with_layer_tables { $($input)* }); };
}

#[doc(hidden)]
#[macro_export]
macro_rules! struct_with_layer_tables {
    (
        { $(#[$meta:meta])* $vis:vis struct $name:ident { $($fields:tt)* } }
        $($module:ident::$spec:ident $(, $table:ident: $type:ident = $about:tt)*;)*
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($fields)*
            $($(
                #[doc = $about]
                pub $table: Option<$crate::middleware::$module::$type>,
            )*)*
        }

        impl $name {
            /// The tables of layers.
            #[must_use]
            pub fn layer_tables(&self) -> $crate::settings::LayerTables {
                $crate::settings::LayerTables { $($($table: self.$table.clone(),)*)* }
            }
        }
    };
}

with_layer_tables! {
    /// The tables of a config file that belong to single layers.
    #[derive(Clone, Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    pub struct LayerTables {}
}

macro_rules! each_table {
    ({} $($module:ident::$spec:ident $(, $table:ident: $type:ident = $about:tt)*;)*) => {
        impl LayerTables {
            /// These tables, and those of `shared` where these have none.
            #[must_use]
            pub fn or(self, shared: Self) -> Self {
                Self { $($($table: self.$table.or(shared.$table),)*)* }
            }

            /// Puts the tables into settings.
            pub fn apply_to(self, settings: &mut Settings) {
                $($(settings.$table = self.$table;)*)*
            }

            /// Adds the settings of layers to what they are built from.
            pub(super) fn add_to(self, inputs: &mut LayerInputs) {
                $($(inputs.set_if_some(self.$table);)*)*
            }

            /// The tables, each with whether its change from `old` is known to only narrow what callers may do.
            pub(super) fn narrows(&self, old: &Self) -> Vec<(&'static str, bool)> {
                vec![$($((
                    stringify!($table),
                    LayerTable::narrows(old.$table.as_ref(), self.$table.as_ref()),
                ),)*)*]
            }

            /// Whether a table selects tools by their names.
            pub(super) fn select_tools(&self) -> bool {
                [$($(self.$table.as_ref().is_some_and(LayerTable::selects_tools),)*)*].contains(&true)
            }

            /// The files that decide besides the settings.
            pub(super) fn rule_files(&self) -> impl Iterator<Item = std::path::PathBuf> {
                let files = [$($(self.$table.as_ref().map(LayerTable::rule_files),)*)*];
                files.into_iter().flatten().flatten()
            }
        }
    };
}

crate::layers!(each_table {});

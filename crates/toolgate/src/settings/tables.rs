//! The tables of a config file that belong to single layers, generated from the list in [`layers`](crate::layers).

use serde::Deserialize;

use super::Settings;
use crate::layer_spec::{LayerInputs, LayerTable};

/// Declares a struct with its own fields, followed by a field for each table of a built-in layer.
///
/// The macro writes the fields out because serde does not report the line of an error in a flattened struct.
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
            /// These tables, with the tables of `shared` for those that are missing.
            #[must_use]
            pub fn or(self, shared: Self) -> Self {
                Self { $($($table: self.$table.or(shared.$table),)*)* }
            }

            /// Sets the tables in the settings.
            pub fn apply_to(self, settings: &mut Settings) {
                $($(settings.$table = self.$table;)*)*
            }

            /// Adds the tables to the inputs of the layers.
            pub(super) fn add_to(self, inputs: &mut LayerInputs) {
                $($(inputs.set_if_some(self.$table);)*)*
            }

            /// The name of each table, and whether its change from `old` certainly only narrows what callers may do.
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

            /// Files whose content decides about calls, besides the settings.
            pub(super) fn rule_files(&self) -> impl Iterator<Item = std::path::PathBuf> {
                let files = [$($(self.$table.as_ref().map(LayerTable::rule_files),)*)*];
                files.into_iter().flatten().flatten()
            }
        }
    };
}

crate::layers!(each_table {});
